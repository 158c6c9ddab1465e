kubectl wait validatingadmissionpolicy/replicas --for=jsonpath='{.status.observedGeneration}'=1 --timeout=180s
