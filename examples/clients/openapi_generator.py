"""The client of OpenAPI Generator: adds an animal, reads all pages, and tells errors by their code. The README has the command that generates it."""

import json
import os
import re
import sys
import uuid

import urllib3

sys.path.insert(0, f"{os.path.dirname(os.path.abspath(__file__))}/generated/python")

import animal_store  # noqa: E402
from animal_store.rest import ApiException  # noqa: E402

configuration = animal_store.Configuration(host=os.environ.get("BASE_URL", "http://127.0.0.1:3000/v1"))
configuration.access_token = os.environ["KEY"]
# urllib3 retries no POST unless it is told to: with an Idempotency-Key, a retry adds nothing twice.
configuration.retries = urllib3.Retry(
    total=5,
    backoff_factor=0.2,
    status_forcelist=[408, 429, 500, 502, 503, 504],
    allowed_methods=["GET", "POST"],
    raise_on_status=False,
)
api = animal_store.PetsApi(animal_store.ApiClient(configuration))

new_pet = animal_store.NewPet(name="Biscuit", category_id=9007199254740993)
added = api.create_pet(new_pet, idempotency_key=str(uuid.uuid4()))
print(f"Added an animal of category {added.category_id}.")

count = 0
options = {}
while True:
    pets, _, headers = api.list_pets_with_http_info(limit=100, **options)
    count += len(pets)
    following = re.search(r'[?&]cursor=([\w-]+)[^>]*>; rel="next"', headers["Link"])
    if following is None:
        break
    options = {"cursor": following[1]}
print(f"Read {count} animals.")

try:
    api.list_pets(cursor="x")
except ApiException as error:
    failure = json.loads(error.body)
    print(f"{failure['code']}: {failure['message']}")
