"""Adds an animal and lists all animals, using only Python's standard library."""

import http.client
import json
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
import uuid

KEY = os.environ.get("KEY")
BASE_URL = os.environ.get("BASE_URL", "http://127.0.0.1:3000/v1")
USAGE = "Usage: KEY=YOUR_API_KEY python3 examples/pets.py NAME CATEGORY_ID"


def call(url, body=None, headers=None):
    """Returns the body and headers of the response. Exits with the code and message of an error."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {KEY}", **(headers or {})})
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.load(response), response.headers
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{error.code} {error.read().decode()}") from None
    except (OSError, http.client.HTTPException) as error:
        raise SystemExit(f"{BASE_URL} does not answer: {getattr(error, 'reason', error)}.") from None


def add(name, category_id):
    pet = {"name": name, "categoryId": category_id}
    return call(f"{BASE_URL}/pets", pet, {"Idempotency-Key": str(uuid.uuid4())})[0]


def pets():
    url = f"{BASE_URL}/pets?limit=100"
    while url:
        page, headers = call(url)
        yield from page
        # RFC 8288: the address can be a path without a host.
        following = re.search(r'<([^>]*)>; rel="next"', headers.get("Link", ""))
        url = following and urllib.parse.urljoin(url, following[1])


if not KEY or len(sys.argv) != 3 or not re.fullmatch("-?[0-9]+", sys.argv[2]):
    print(USAGE, file=sys.stderr)
    sys.exit(2)
print("Added:", add(sys.argv[1], int(sys.argv[2])))
for pet in pets():
    print(pet["id"], pet["name"], pet["categoryId"], pet["status"])
