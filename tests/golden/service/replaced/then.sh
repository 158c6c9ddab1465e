kubectl --namespace "$NS" get service replaced --output=yaml | sed 's/app: web/app: shop/' |
  kubectl --namespace "$NS" replace -f -
