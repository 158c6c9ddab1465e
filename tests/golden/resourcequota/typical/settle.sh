kubectl --namespace tight wait resourcequota/typical --for=jsonpath='{.status.hard.pods}'=50 --timeout=180s
