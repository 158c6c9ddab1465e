#!/usr/bin/env bash
# Builds the Kubernetes control plane that the tests run against, and a few tools, from source.
#
#   build.sh                      etcd, kube-apiserver, kube-controller-manager, kubectl, yamlcheck
#   build.sh TOOL...              only these; helm, kubeconform and sops are built only when named
#   build.sh --print-dir          prints the folder of the control plane and builds nothing
#   build.sh --print-tools-dir    prints the folder of yamlcheck, helm, kubeconform and sops
#
# A --print flag together with tools builds the tools first. What is there already is not built
# again, and nothing is said about it. Standard output has only what a --print flag asks for.
#
# Both folders are the same one, outside of the repository:
#   ${REVERSER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gitops-reverser}/control-plane/<key>
# The key holds the Kubernetes version and a hash over everything that decides what is built, so
# several checkouts can share the cache, and a binary that is there is always the right one.
#
# If KUBEBUILDER_ASSETS is set, the control plane is taken from that folder and not built: it must
# hold etcd, kube-apiserver and kubectl (and kube-controller-manager, if that is named), and
# --print-dir prints it. The other tools are still built into the cache, so --print-tools-dir
# differs from --print-dir then.
set -euo pipefail

control_plane="etcd kube-apiserver kube-controller-manager kubectl"
other_tools="yamlcheck helm kubeconform sops"

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

say() { printf '%s\n' "$*" >&2; }
die() { say "$@"; exit 1; }
contains() { case " $1 " in *" $2 "*) true ;; *) false ;; esac; }
# Who is told a path, and Go below, work in other folders than the caller.
absolute() { case $1 in /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac; }

# The version of a module that the go.mod of a folder requires: version_of FOLDER MODULE
version_of() {
  awk -v module="$2" '
    $1 == "require" { $0 = substr($0, 8) }
    $1 == module && $2 ~ /^v/ { print $2; exit }
  ' "$here/$1/go.mod"
}

sha256() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi; }

# --- arguments ------------------------------------------------------------------------------------

print=
tools=
for argument in "$@"; do
  case $argument in
    --print-dir | --print-tools-dir) print=$argument ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *)
      contains "$control_plane $other_tools" "$argument" ||
        die "build.sh: unknown argument '$argument'; tools: $control_plane $other_tools"
      tools="$tools $argument"
      ;;
  esac
done

assets=${KUBEBUILDER_ASSETS:+$(absolute "$KUBEBUILDER_ASSETS")}

if [ -z "$tools" ] && [ -z "$print" ]; then
  tools="etcd kube-apiserver kube-controller-manager kubectl yamlcheck"
  # The folders that others fill hold no kube-controller-manager, and most tests need none.
  [ -z "$assets" ] || tools="etcd kube-apiserver kubectl yamlcheck"
fi

# --- a control plane that is there already --------------------------------------------------------

if [ -n "$assets" ]; then
  missing=
  to_build=
  for tool in $tools; do
    if ! contains "$control_plane" "$tool"; then
      to_build="$to_build $tool"
    elif [ ! -x "$assets/$tool" ]; then
      missing="$missing $tool"
    fi
  done
  [ -z "$missing" ] || die "build.sh: KUBEBUILDER_ASSETS=$assets lacks:$missing"
  tools=$to_build

  # Up to here no Go is needed.
  if [ -z "$tools" ] && [ "$print" != --print-tools-dir ]; then
    [ -z "$print" ] || printf '%s\n' "$assets"
    exit 0
  fi
fi

# --- what decides the key -------------------------------------------------------------------------

# The flags below are the whole truth: what the caller has set would change binaries but not the key.
export CGO_ENABLED=0 GOFLAGS="-mod=readonly -buildvcs=false" GOWORK=off GO111MODULE=on
# No silent download of another Go, unless the caller has asked for one.
export GOTOOLCHAIN="${GOTOOLCHAIN:-local}"

needs_go="building the test control plane needs Go >= 1.26: install it and put it on PATH"
command -v go >/dev/null || die "build.sh: $needs_go"
# Within the folder, because go.mod has a say in which Go it is.
go=$(cd "$here" && go env GOVERSION GOOS GOARCH 2>/dev/null | tr '\n' ' ') || go=
go=${go% }
case $go in
  go1.2[6-9]* | go1.[3-9][0-9]* | devel*) ;;
  *) die "build.sh: $needs_go (found: ${go:-one that does not run})" ;;
esac

kubernetes=$(version_of . k8s.io/kubernetes)
helm=$(version_of helm helm.sh/helm/v4)
kubeconform=$(version_of kubeconform github.com/yannh/kubeconform)

# Kubernetes calls itself v0.0.0 without these, and clients stumble over that. Its own build sets
# them for both packages too. "archive" is its word for source without a Git repository.
kubernetes_flags() {
  local package minor=${kubernetes#v1.}
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    printf -- '-X %s=%s ' \
      "$package.gitVersion" "$kubernetes" \
      "$package.gitMajor" 1 \
      "$package.gitMinor" "${minor%%.*}" \
      "$package.gitCommit" "" \
      "$package.gitTreeState" archive
  done
}

# The folder whose go.mod is used, the package, linker flags, and the time it takes on two cores:
# plan TOOL
plan() {
  folder=$1 flags=
  case $1 in
    etcd) folder=. package=go.etcd.io/etcd/server/v3 takes="1 minute" ;;
    kube-apiserver) folder=. package=k8s.io/kubernetes/cmd/$1 takes="5 minutes" ;;
    kube-controller-manager) folder=. package=k8s.io/kubernetes/cmd/$1 takes="2 minutes" ;;
    kubectl) folder=. package=k8s.io/kubernetes/cmd/$1 takes="1 minute" ;;
    yamlcheck) package=. takes="5 seconds" ;;
    helm)
      package=helm.sh/helm/v4/cmd/helm takes="4 minutes"
      flags="-X helm.sh/helm/v4/internal/version.version=$helm"
      ;;
    kubeconform)
      package=github.com/yannh/kubeconform/cmd/kubeconform takes="1 minute"
      flags="-X main.version=$kubeconform"
      ;;
    sops) package=github.com/getsops/sops/v3/cmd/sops takes="3 minutes" ;;
  esac
  case $package in k8s.io/*) flags=$(kubernetes_flags) ;; esac
  flags="-s -w $flags"
}

# Not this script itself, so that a better comment here does not cost anybody ten minutes.
key() {
  echo "$go $CGO_ENABLED $GOFLAGS"
  for tool in $control_plane $other_tools; do
    plan "$tool"
    echo "$tool $package $flags"
  done
  cd "$here"
  cat go.mod go.sum
  for tool in $other_tools; do
    cat "$tool/go.mod" "$tool/go.sum"
  done
  cat yamlcheck/main.go
}

cache=$(absolute "${REVERSER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gitops-reverser}")
hash=$(key | sha256)
dir=$cache/control-plane/$kubernetes-${hash:0:12}

# --- build ----------------------------------------------------------------------------------------

absent() {
  for tool in $tools; do
    [ -x "$dir/$tool" ] || echo "$tool"
  done
}

build() {
  local start=$SECONDS output
  plan "$1"
  printf 'building %s, about %s if nothing is cached ... ' "$1" "$takes" >&2
  # Under another name until it is whole, so that nobody runs half of it.
  part=$dir/.$1.$$
  if ! output=$(cd "$here/$folder" && go build -trimpath -ldflags "$flags" -o "$part" "$package" 2>&1); then
    say "failed"
    die "$output"
  fi
  mv -f "$part" "$dir/$1"
  say "$((SECONDS - start)) s"
}

if [ -n "$(absent)" ]; then
  mkdir -p "$dir"
  part=
  trap '[ -z "$part" ] || rm -f "$part"' EXIT
  # Two builds at once would do the same work twice. Where there is no flock, that is all that
  # happens: the result is right either way.
  if command -v flock >/dev/null; then
    exec 9>"$dir/.lock"
    flock -n 9 || { say "waiting for another build.sh ..."; flock 9; }
  fi
  for tool in $(absent); do
    build "$tool"
  done
fi

case $print in
  --print-dir) printf '%s\n' "${assets:-$dir}" ;;
  --print-tools-dir) printf '%s\n' "$dir" ;;
esac
