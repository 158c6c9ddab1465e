module gitops-reverser/hack/control-plane/yamlcheck

go 1.26.0

// The version that the Kubernetes of ../go.mod uses.
require sigs.k8s.io/yaml v1.6.0

require go.yaml.in/yaml/v2 v2.4.2 // indirect
