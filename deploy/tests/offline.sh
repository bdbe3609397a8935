# Runs in a network namespace without a route: installs a bundle, and asks one question of what was installed.
# Arguments: bundle, public key, prefix, state folder, settings.
set -eu
ip link set lo up
if "$PYTHON" -c 'import socket; socket.create_connection(("192.0.2.1", 443), 5)' 2>/dev/null; then
    echo "there is a network" >&2
    exit 9
fi
"$1/install.sh" "$2" "$3" "$4"
export TIDEGATE_STATE_DIR="$4" TIDEGATE_SETTINGS="$5"
"$3/bin/tidegate" edge serve 2>"$4/edge.log" &
"$3/bin/tidegate" serve 2>"$4/gateway.log" &
for _ in $(seq 60); do
    "$3/bin/python" deploy/docker/healthcheck.py 8080 /readyz >/dev/null 2>&1 && break
    sleep 1
done
"$3/bin/python" deploy/docker/healthcheck.py "$4/run/edge.sock" /readyz >&2
"$3/bin/tidegate" doctor >&2
"$3/bin/tidegate" ask "Say one word." --max-tokens 4 --json
