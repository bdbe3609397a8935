#!/bin/sh
# Install Tidegate from the bundle that this file lies in, without any network.
#
#   ./install.sh PUBLIC_KEY [PREFIX] [STATE_DIR]
#
# PUBLIC_KEY is the publisher's, in base64, as you were told it by another way than the bundle's. Needs Python with its
# venv module and openssl. Nothing of the bundle is run or read before its signature and every checksum were found right.
set -eu
key=${1:?"the publisher's public key in base64"}
prefix=${2:-/opt/tidegate}
state=${3:-/var/lib/tidegate}
bundle=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Ed25519 over DSSE's encoding of the list of checksums, as all signatures of Tidegate.
kind=application/vnd.tidegate.bundle
{ printf '\060\052\060\005\006\003\053\145\160\003\041\000'; printf %s "$key" | base64 -d; } >"$work/key.der"
{
    printf 'DSSEv1 %d %s %d ' "${#kind}" "$kind" "$(wc -c <"$bundle/SHA256SUMS")"
    cat "$bundle/SHA256SUMS"
} >"$work/signed"
base64 -d <"$bundle/SHA256SUMS.sig" >"$work/signature"
openssl pkeyutl -verify -pubin -keyform DER -inkey "$work/key.der" -rawin -in "$work/signed" \
    -sigfile "$work/signature" >/dev/null || {
    echo "The bundle is not signed by that key: nothing was installed." >&2
    exit 1
}
(cd "$bundle" && sha256sum --check --quiet --strict SHA256SUMS) || {
    echo "A file of the bundle is not what was signed: nothing was installed." >&2
    exit 1
}

"${PYTHON:-python3}" -m venv "$prefix"
"$prefix/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --find-links "$bundle/wheels" \
    --only-binary :all: --require-hashes -r "$bundle/requirements.txt"
export TIDEGATE_STATE_DIR="$state"
for model in "$bundle"/models/*/; do
    [ -f "$model/manifest.json" ] || continue
    sum=$(sha256sum "$model/manifest.json")
    "$prefix/bin/tidegate" models pull "file:$model" --name "$(basename "$model")" --sha256 "${sum%% *}"
done
"$prefix/bin/tidegate" --version
