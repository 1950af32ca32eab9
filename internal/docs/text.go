package docs

const introduction = `# Providers

<!-- "make docs" writes this page from the presets in verify/presets_*.go. -->

A source names its provider, and gives what the provider's section below asks
for. The rest is known: how requests are signed, where they carry their id and
their type, and how the provider finds out that the URL is yours.

` + "```yaml" + `
- slug: github
  provider: github
  secrets: ["${GITHUB_SECRET}"]    # several are all live, for a rotation
` + "```" + `

| a source may give | |
| --- | --- |
| ` + "`scheme`" + ` | one of the provider's schemes, where it has several; its first by default |
| ` + "`secrets`" + ` | as the provider shows them |
| ` + "`public_keys`" + ` | each as PEM, as JWK or JWK Set, in base64 of DER, or for Ed25519 as 64 hexadecimal digits |
| ` + "`options`" + ` | the provider's own, by name |
| ` + "`tolerance_seconds`" + ` | how far timestamp and receipt may lie apart, instead of the provider's tolerance |
| ` + "`idempotency_key_paths`, `event_type_paths`" + ` | instead of the provider's |
| ` + "`replay_protection`" + ` | ` + "`body` or `off`" + ` instead of the provider's, see [Replays](#replays) |

Where the URL is signed, set ` + "`EVENTHOOK_PUBLIC_URL`" + ` to how the outside reaches
you. The API has this list too, at ` + "`GET T/providers`" + ` (` + "`T` is `/api/tenants/{tenant}/eventhook`" + `),
and so has the program: ` + "`eventhook providers`" + `.
`

const spellOut = `
## Spell out a verifier

For any other sender, say how it signs. A source that names a provider too
keeps the provider's ids, types and handshake.

` + "```yaml" + `
- slug: crm
  verifier: {type: hmac, header: X-Signature, algorithm: sha256, encoding: hex, prefix: "sha256=", secrets: ["${CRM_SECRET}"]}
  idempotency_key_paths: [header.x-request-id, body.id]
  event_type_paths: [header.x-topic]
` + "```" + `

A field that a type does not take is a fault.

`

const templates = `
### What is signed

` + "`signed`" + ` is text with placeholders:

`

const paths = `
In the providers' sections ` + "`{option.<name>}`" + ` stands for an option of the
source; a verifier that is spelled out has none and says the text itself.

## Ids and types

A path is ` + "`header.<name>`, `body.<a.b.0.c>`, `cloudevent.<attribute>`" + ` or
` + "`cloudevent.data.<a.b.0.c>`" + ` of a [CloudEvent](routing.md#cloudevents), or
` + "`sha256.body`" + `, the SHA-256 of the body, for webhooks that have no id: then two
that are alike are one. Several are joined with ` + "` + `" + `, as in ` + "`header.linear-event + body.action`" + `: their texts with a dot
between, and nothing if one of them is absent. Texts and numbers count. The
first path of a list that leads somewhere is taken. A path to a header that
carries credentials leads nowhere. A body that is valid JSON is read as JSON,
whatever ` + "`Content-Type` or `Content-Encoding`" + ` says: these headers are not signed.

After its own paths an event's type is looked for in the headers
` + "`x-event-type`, `x-github-event`, `x-stripe-event`, `x-webhook-event`, `ce-type`" + `
and in the body's ` + "`type`, `event`, `action`, `event_type`" + `.

## Replays

A captured request is a genuine one that somebody has got hold of and sends
again. Its headers are seldom signed, so they can be changed: the id that many
providers put there, and the content type by which a form or XML is read. Each
provider's section says what a captured request still can do.

` + "`replay_protection: body`" + ` on a source makes the signed bytes count once: beside
the id, the source claims the SHA-256 of what the signature covers, with the
timestamp or the URL where they are signed. An event is a duplicate if either
its id or this hash was accepted before. Ids and hashes are kept as long as
events are; a request that is captured for longer, and whose timestamp is not
judged, is a new event then.

- ` + "`body`" + ` is the default for providers whose id is not signed, or is missing
  in some requests, and that never sign the same bytes twice. Two webhooks of such
  a provider that point to one source and send the same bytes make one event.
- ` + "`off`" + ` is the default for all others and for a verifier that is spelled out.
  Where a spelled-out sender puts an id or a moment into each body, set ` + "`body`" + `,
  above all if its id is in a header or its bodies are forms or XML.
- Requests with a token are not signed at all: whoever has the token can send any
  body, and ` + "`replay_protection`" + ` does not change that.

A request that somebody has caught and held back, so that it comes first, is
accepted with the headers that it then has.
`

const trying = `
## Try it

` + "`eventhook verify`" + ` judges one request offline, as the gateway would, and says
which part failed:

` + "```sh" + `
eventhook verify --provider github --secret "$GITHUB_SECRET" \
  -H "X-Hub-Signature-256: $SIGNATURE" -H 'X-GitHub-Event: push' --body-file body.json
# {"verified":false,"scheme":"github","error":"mismatch: no secret matched (of 1)","event_type":"push",…}
` + "```" + `

` + "`POST T/sources/{slug}/test`" + ` does the same for a source, and tells what its routes
would do. Nothing is stored.

` + "`eventhook verify --vectors FILE`" + ` runs requests whose answers are known, and prints
a line for each. The file is a JSON list:

` + "```json" + `
[{"provider": "github", "scheme": "github", "name": "GitHub's own example",
  "method": "POST", "url": "", "headers": {"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
  "body": "Hello, World!", "secret": "It's a Secret to Everybody", "public_key": "",
  "config": {}, "now": null, "expect": "valid"}]
` + "```" + `

` + "`config`" + ` holds the provider's options, ` + "`tolerance`" + ` in seconds and a ` + "`secondary_secret`" + `;
` + "`now`" + ` is the receipt in Unix seconds; ` + "`expect`, `valid` or `invalid`" + `, may be left out.
`
