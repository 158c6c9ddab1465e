//go:build tools

// Package kubeconform names the program that ../build.sh builds. It is never compiled.
package kubeconform

import _ "github.com/yannh/kubeconform/cmd/kubeconform"
