"""Lists, adds and reads pets with a generated client. Arguments: its folder, the base address and an API key. Prints JSON."""

import json
import re
import sys

folder, host, key = sys.argv[1:]
sys.path.insert(0, folder)

import animal_store  # noqa: E402
from animal_store.rest import ApiException  # noqa: E402


def connect(token):
    configuration = animal_store.Configuration(host=host)
    configuration.access_token = token
    return animal_store.PetsApi(animal_store.ApiClient(configuration))


def refused(call):
    try:
        call()
    except ApiException as error:
        return [error.status, json.loads(error.body)["code"]]


def walk(api):
    """All pets, one a page."""
    cursor = None
    while True:
        options = {} if cursor is None else {"cursor": cursor}
        pets, _, headers = api.list_pets_with_http_info(limit=1, **options)
        yield from pets
        following = re.search(r'cursor=(\w+)[^>]*>; rel="next"', headers["Link"])
        if following is None:
            return
        cursor = following[1]


api = connect(key)
before = api.list_pets()
added = [api.create_pet(animal_store.NewPet(name=f"Pet {id}", category_id=id)) for id in (7, 2**53 + 1, 2**63 - 1)]
print(
    json.dumps(
        {
            "before": before,
            "added": [pet.id for pet in added],
            "status": added[0].status,
            # As text, for readers that keep fewer digits.
            "listed": [[pet.id, pet.name, str(pet.category_id)] for pet in walk(api)],
            "fetched": str(api.get_pet(2).category_id),
            "wrongKey": refused(connect("x").list_pets),
            "wrongCursor": refused(lambda: api.list_pets_with_http_info(limit=1, cursor="x")),
            "missing": refused(lambda: api.get_pet(99)),
            "orders": refused(animal_store.StoreApi(api.api_client).list_orders),
        }
    )
)
