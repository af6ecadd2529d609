"""A made OpenAPI description of the size and style of a public one: 50 operations with prose, examples and defaults."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

RESOURCES: dict[str, tuple[str, ...]] = {
    "customers": ("name", "email", "phone", "address", "locale", "marketing"),
    "orders": ("customer_id", "currency", "lines", "shipping", "note", "placed_at"),
    "products": ("name", "sku", "price", "description", "weight", "tags"),
    "invoices": ("customer_id", "currency", "total", "due_on", "lines", "reference"),
    "subscriptions": ("customer_id", "plan", "interval", "starts_on", "quantity", "metadata"),
    "refunds": ("payment_id", "total", "reason", "note", "metadata", "reference"),
    "warehouses": ("name", "address", "capacity", "opening", "contact", "metadata"),
    "shipments": ("order_id", "carrier", "tracking", "shipping", "weight", "placed_at"),
    "coupons": ("code", "percent", "currency", "starts_on", "limit", "note"),
    "webhooks": ("url", "events", "secret_hint", "active", "description", "metadata"),
}
ONE = {name: name.removesuffix("s") for name in RESOURCES}


def prop(schema: Schema, title: str, text: str, example: Any, **more: Any) -> Schema:
    return {**schema, "title": title, "description": text, "example": example, **more}


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
PROPERTIES: dict[str, Schema] = {
    "name": prop({**STRING, "minLength": 1, "maxLength": 120}, "Name", "The name that is shown to people. It is used in lists, on documents and in messages to your customers, so keep it short and recognisable.", "Blue Harbour Trading"),
    "email": prop({**STRING, "format": "email"}, "E-mail address", "Where messages are sent. The address is verified by a message with a link; until the customer follows it, nothing else is delivered there.", "ada@example.org"),
    "phone": prop({**STRING, "pattern": "^\\+[0-9]{6,15}$"}, "Telephone", "A number in international form, with a plus sign and without spaces. It is passed on to carriers that call ahead of a delivery.", "+4912345678", default=None),
    "locale": prop({**STRING, "enum": ["en", "de", "fr", "ja"]}, "Language", "The language of messages and documents. Where a text is not available in it, English is used instead.", "de", default="en"),
    "marketing": prop({"type": "boolean"}, "Marketing consent", "Whether the customer agreed to receive offers. The time and the source of the consent are recorded and can be exported for an audit.", False, default=False),
    "customer_id": prop({**STRING, "pattern": "^cus_[a-z0-9]{8}$"}, "Customer", "Identifies the customer. It must exist and must not be archived; archived customers can be restored in the dashboard.", "cus_1a2b3c4d"),
    "order_id": prop({**STRING, "pattern": "^ord_[a-z0-9]{8}$"}, "Order", "Identifies the order. Orders that were cancelled cannot be shipped, and the call is refused with the code order_cancelled.", "ord_9z8y7x6w"),
    "payment_id": prop({**STRING, "pattern": "^pay_[a-z0-9]{8}$"}, "Payment", "Identifies the payment. It must have been captured, and at least as much as is asked for must be left of it.", "pay_0q1w2e3r"),
    "currency": prop({**STRING, "enum": ["EUR", "USD", "JPY"]}, "Currency", "The currency of all amounts in the request. It cannot be changed later, since amounts that were settled already would lose their meaning.", "EUR", default="EUR"),
    "total": prop({**INTEGER, "minimum": 0}, "Amount", "In the smallest unit of the currency, so 1999 is 19.99 EUR. Amounts are never rounded; send whole numbers only.", 1999),
    "price": {"$ref": "#/components/schemas/Money"},
    "address": {"$ref": "#/components/schemas/Address"},
    "shipping": {"$ref": "#/components/schemas/Address"},
    "lines": prop({"type": "array", "minItems": 1, "maxItems": 100, "items": {"$ref": "#/components/schemas/Line"}}, "Lines", "What is bought. Lines with the same product are kept apart, so that each can have its own note; their order is preserved on documents.", [{"product_id": "prd_1", "quantity": 2}]),
    "note": prop({**STRING, "maxLength": 500}, "Note", "Text for your own staff. It is never shown to customers and is not searched; use metadata for what programs should find.", "Call before delivery", default=""),
    "placed_at": prop({**STRING, "format": "date-time"}, "Time", "When it happened, with an offset. Times in the future are refused, but for a tolerance of five minutes for clocks that are not exact.", "2026-01-31T12:00:00Z"),
    "sku": prop({**STRING, "maxLength": 40}, "Stock keeping unit", "Your own number for it. It must be unique among products that are not archived, and comparisons ignore case.", "BH-1042-L"),
    "description": prop({**STRING, "maxLength": 5000}, "Description", "A longer text in Markdown. Images are not loaded from other hosts; upload them as files first and refer to them.", "A *sturdy* lamp for the desk."),
    "weight": prop({"type": "number", "exclusiveMinimum": 0}, "Weight", "In kilograms, packaging included. Carriers charge by it, and a difference of more than a tenth is billed afterwards.", 1.25),
    "tags": prop({"type": "array", "uniqueItems": True, "items": STRING}, "Tags", "Words to find it by. At most twenty are kept; further ones are dropped silently, and so are empty ones.", ["lamp", "desk"], default=[]),
    "due_on": prop({**STRING, "format": "date"}, "Due date", "The last day on which the payment is in time. Reminders are sent three days before it and on every seventh day after it.", "2026-02-28"),
    "reference": prop({**STRING, "maxLength": 64}, "Reference", "Your own reference. It is printed on the document and can be used once only, which keeps a repeated call from having an effect twice.", "2026-00042"),
    "plan": prop({**STRING, "enum": ["basic", "plus", "team"]}, "Plan", "What is subscribed to. A change takes effect at the next renewal unless proration is switched on for your account.", "plus", default="basic"),
    "interval": prop({**STRING, "enum": ["month", "year"]}, "Interval", "How often it renews. Yearly renewals are announced thirty days ahead, as the law of several countries demands.", "month", default="month"),
    "starts_on": prop({**STRING, "format": "date"}, "First day", "The first day on which it holds. A day in the past is taken as today; a day more than a year ahead is refused.", "2026-03-01"),
    "quantity": prop({**INTEGER, "minimum": 1, "maximum": 10_000}, "Quantity", "How many of it. Larger numbers need an agreement with us; write to support before you send them.", 3, default=1),
    "metadata": prop({"type": "object", "additionalProperties": STRING}, "Metadata", "Up to fifty pairs of your own. Names may have forty characters and values five hundred; nothing in here is interpreted by us.", {"source": "import"}, default={}),
    "reason": prop({**STRING, "enum": ["duplicate", "fraud", "returned"]}, "Reason", "Why the money goes back. Fraud is reported to the card network, so choose it only if you are certain.", "returned"),
    "capacity": prop({**INTEGER, "minimum": 0}, "Capacity", "How many pallets fit. It is a planning figure: nothing is refused when it is exceeded, but a warning appears.", 1200),
    "opening": prop({"type": "object", "properties": {"from": STRING, "to": STRING}, "required": ["from", "to"]}, "Opening hours", "When goods are received, in the local time of the place. Carriers are told, and arrivals outside of it are charged.", {"from": "07:00", "to": "16:30"}),
    "contact": {"$ref": "#/components/schemas/Contact"},
    "carrier": prop({**STRING, "enum": ["dhl", "ups", "post"]}, "Carrier", "Who carries it. Your account must have a contract with the carrier; the dashboard lists the ones that are active.", "dhl"),
    "tracking": prop({**STRING, "maxLength": 60}, "Tracking number", "The number by which the carrier knows it. It is checked against the carrier's own format and shown to the customer.", "00340434161094042557"),
    "code": prop({**STRING, "pattern": "^[A-Z0-9]{4,16}$"}, "Code", "What customers type in. Letters are compared without regard to case, and codes are never given out twice.", "SPRING26"),
    "percent": prop({**INTEGER, "minimum": 1, "maximum": 100}, "Discount", "How much is taken off, in percent of the goods. Shipping and taxes are not reduced by it.", 15),
    "limit": prop({"type": ["integer", "null"], "minimum": 1}, "Limit", "How often it can be used in all. Null means without a limit; uses that were refunded do not count.", 500, default=None),
    "url": prop({**STRING, "format": "uri"}, "Address", "Where events are sent. It must begin with https and answer within ten seconds, or the event is sent again later.", "https://example.org/hooks"),
    "events": prop({"type": "array", "minItems": 1, "items": {**STRING, "enum": ["order.created", "order.paid", "refund.created"]}}, "Events", "Which events are sent. Events that are added to the interface later have to be added here as well.", ["order.paid"]),
    "secret_hint": prop({**STRING, "maxLength": 4}, "Hint", "The last characters of the signing secret. They help to tell secrets apart; the secret itself is shown once only.", "x7Qf"),
    "active": prop({"type": "boolean"}, "Active", "Whether events are sent. It is switched off by itself after three days without a successful delivery.", True, default=True),
}  # fmt: skip
SCHEMAS: dict[str, Schema] = {
    "Money": {
        "type": "object",
        "title": "Money",
        "description": "An amount with its currency. Both are needed, and neither is ever guessed from the account.",
        "required": ["amount", "currency"],
        "properties": {"amount": PROPERTIES["total"], "currency": PROPERTIES["currency"]},
        "example": {"amount": 1999, "currency": "EUR"},
    },
    "Address": {
        "type": "object",
        "title": "Postal address",
        "description": "Where something is or goes. It is checked against the postal service of its country where there is one.",
        "required": ["line1", "city", "country"],
        "properties": {
            "line1": prop({**STRING, "maxLength": 80}, "Street", "Street and number. A company name goes in front of it, separated by a comma, if the place needs it.", "Hafenstr. 7"),
            "line2": prop({"type": ["string", "null"], "maxLength": 80}, "More", "Floor, door or building. It is printed as it is, so abbreviations are fine here.", "2nd floor", default=None),
            "city": prop(STRING, "City", "The town in the spelling of its own country. Transliterations are accepted and corrected.", "Hamburg"),
            "postal_code": prop({**STRING, "maxLength": 12}, "Postal code", "As the country writes it. Some countries have none; then leave it out altogether.", "20457"),
            "country": prop({**STRING, "minLength": 2, "maxLength": 2}, "Country", "Two letters as in ISO 3166. Territories have codes of their own, and they matter for customs.", "DE"),
        },
        "example": {"line1": "Hafenstr. 7", "city": "Hamburg", "country": "DE"},
    },
    "Line": {
        "type": "object",
        "title": "Line",
        "required": ["product_id", "quantity"],
        "properties": {
            "product_id": prop(STRING, "Product", "Identifies the product. Archived products can be named as long as some are left in stock.", "prd_1"),
            "quantity": PROPERTIES["quantity"],
            "note": PROPERTIES["note"],
        },
        "example": {"product_id": "prd_1", "quantity": 2},
    },
    "Contact": {
        "type": "object",
        "title": "Contact",
        "description": "Somebody to talk to. People are not created by this; it is only text on documents.",
        "properties": {"name": PROPERTIES["name"], "email": PROPERTIES["email"], "phone": PROPERTIES["phone"]},
    },
}  # fmt: skip
PAGING = [
    {"name": "limit", "in": "query", "description": "How many to return at most. Fewer may come back even if there are more; look at the cursor.", "schema": {**INTEGER, "minimum": 1, "maximum": 100, "default": 20}, "example": 50},
    {"name": "cursor", "in": "query", "description": "Where to go on, as the page before returned it. Cursors are opaque, hold for an hour and belong to one query.", "schema": STRING, "example": "eyJpZCI6NDJ9"},
    {"name": "created_after", "in": "query", "description": "Only what was created after this time. The comparison is exact to the millisecond, and the time itself is left out.", "schema": {**STRING, "format": "date-time"}, "example": "2026-01-01T00:00:00Z"},
    {"name": "sort", "in": "query", "description": "The order of the results. Results that are equal in it are ordered by their identifiers, so that pages never overlap.", "schema": {**STRING, "enum": ["created", "-created", "name"], "default": "-created"}},
]  # fmt: skip
REPEATABLE = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A key of your own for this call. If the same key is sent again within a day, the first answer is returned and nothing is done twice.",
    "schema": {**STRING, "maxLength": 64},
    "example": "4f9c1d",
}


def public_description() -> dict[str, Any]:
    """The description, without references into other files."""
    paths: dict[str, Any] = {}
    for name in RESOURCES:
        paths[f"/{name}"] = {"get": listing(name), "post": changing(name, "create")}
        one = {
            "name": f"{ONE[name]}_id",
            "in": "path",
            "required": True,
            "description": f"Identifies the {ONE[name]}. It is returned when one is created and never changes afterwards.",
            "schema": STRING,
            "example": f"{name[:3]}_1a2b3c4d",
        }
        paths[f"/{name}/{{{ONE[name]}_id}}"] = {
            "parameters": [one],
            "get": {"operationId": f"get_{ONE[name]}", "summary": f"Get one {ONE[name]}."},
            "patch": changing(name, "update"),
            "delete": {"operationId": f"delete_{ONE[name]}", "summary": f"Archive a {ONE[name]}."},
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "2026-01-01"},
        "servers": [{"url": "https://shop.example/v1"}],
        "paths": paths,
        "components": {"schemas": SCHEMAS | {f"New{ONE[name].title()}": body(name) for name in RESOURCES}},
    }


def listing(name: str) -> Schema:
    return {
        "operationId": f"list_{name}",
        "summary": f"List {name}.",
        "description": "Returns a page, newest first.",
        "parameters": PAGING,
    }


def changing(name: str, verb: str) -> Schema:
    return {
        "operationId": f"{verb}_{ONE[name]}",
        "summary": f"{verb.title()} a {ONE[name]}.",
        "parameters": [REPEATABLE],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": {"$ref": f"#/components/schemas/New{ONE[name].title()}"}}
            },
        },
    }


def body(name: str) -> Schema:
    fields = RESOURCES[name]
    return {
        "type": "object",
        "title": ONE[name].title(),
        "required": list(fields[:2]),
        "properties": {field: PROPERTIES[field] for field in fields},
        "additionalProperties": False,
    }
