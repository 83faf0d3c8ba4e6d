#!/usr/bin/env bash
# A first session with curl. KEY is an API key, BASE_URL the base address of the API.
set -euo pipefail
: "${BASE_URL:=http://127.0.0.1:3000/v1}"
if [ -z "${KEY:-}" ]; then
  echo 'Usage: KEY=YOUR_API_KEY bash examples/session.sh' >&2
  exit 2
fi

call() {
  curl --silent --show-error --fail-with-body --max-time 10 --header "Authorization: Bearer $KEY" "$@"
  echo
}
add() {
  call "$BASE_URL/pets" --data "$1" --header 'Content-Type: application/json' \
    --header "Idempotency-Key: $(date +%s)-$$-$RANDOM-$RANDOM"
}

add '{"name": "Biscuit", "categoryId": 9007199254740993}'
add '{"name": "Crumb", "categoryId": 7, "status": "sold"}'

echo 'Sold:'
call "$BASE_URL/pets?status=sold"

# The Link header has the address of the next page; the last page has none.
page="$BASE_URL/pets?limit=1"
headers=$(mktemp)
trap 'rm -f "$headers"' EXIT
while [ -n "$page" ]; do
  call "$page" --dump-header "$headers"
  next=$(sed -nE 's/^[Ll]ink: .*<([^>]*)>; rel="next".*/\1/p' "$headers")
  case $next in
    /*) page=${BASE_URL%/v1}$next ;; # Without BASE_URL among its settings, the server sends paths.
    *) page=$next ;;
  esac
done
