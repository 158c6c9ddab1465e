kubectl wait node/node-5 --for=jsonpath='{.metadata.annotations.node\.alpha\.kubernetes\.io/ttl}'=0 --timeout=180s
