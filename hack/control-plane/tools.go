//go:build tools

// Package controlplane names the programs that build.sh builds, so that `go mod tidy` keeps what
// they need in go.mod. It is never compiled.
package controlplane

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
