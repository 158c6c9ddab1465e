//go:build tools

// Package sops names the program that ../build.sh builds. It is never compiled.
package sops

import _ "github.com/getsops/sops/v3/cmd/sops"
