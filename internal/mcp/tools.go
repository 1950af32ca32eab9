package mcp

import "strings"

// tool is an operation of the API that the server offers.
type tool struct {
	operation string // operationId
	changes   bool   // requires AllowWrites
	counts    bool   // changes many objects: requires the argument expected_count
	repeats   bool   // a repeated call changes nothing more
	isRaw     bool   // the gateway answers with bytes instead of JSON
	hint      string // follows the description of the operation
}

// name returns the name of the tool: list_events for the operation list-events.
func (t tool) name() string { return strings.ReplaceAll(t.operation, "-", "_") }

const countHint = "expected_count is required: with a wrong number nothing is changed, and the error names the right one. Tell the user what the call will do before you make it with the right number."

// rawHint describes the answer of a tool with isRaw.
const rawHint = "size is the number of bytes. A body in UTF-8 is returned as text; of another body, base64 has the beginning."

// tools lists the tools. Each operation of a tenant that only reads is here or in omitted.
var tools = []tool{
	{operation: "lookup"},
	{operation: "get-overview"},
	{operation: "get-usage"},
	{operation: "get-work-queues"},
	{operation: "list-sources"},
	{operation: "get-source"},
	{operation: "get-handshake"},
	{operation: "list-rejections"},
	{operation: "list-routes"},
	{operation: "get-route"},
	{operation: "list-providers"},
	{operation: "list-event-types"},
	{operation: "get-event-type"},
	{operation: "list-events"},
	{operation: "search-events"},
	{operation: "get-event"},
	{operation: "get-event-payload", isRaw: true, hint: rawHint},
	{operation: "list-subscriptions"},
	{operation: "get-subscription"},
	{operation: "get-subscription-stats"},
	{operation: "list-subscription-deliveries"},
	{operation: "list-deliveries"},
	{operation: "list-dead-groups"},
	{operation: "get-delivery"},
	{operation: "get-delivery-request"},
	{operation: "list-replays"},
	{operation: "get-replay"},
	{operation: "list-agents"},
	{operation: "get-agent"},
	{operation: "list-work"},
	{operation: "get-work"},
	{operation: "list-promises"},
	{operation: "get-promise"},
	{operation: "list-tenant-audit"},
	{operation: "export-tenant-configuration"},

	{operation: "test-event"},
	{operation: "test-source"},
	{operation: "test-expression"},
	{operation: "backtest-route"},

	{operation: "test-subscription", changes: true},
	{operation: "send-event", changes: true},
	{operation: "retry-delivery", changes: true},
	{operation: "retry-deliveries", changes: true, counts: true, hint: countHint},
	{operation: "retry-work", changes: true},
	{operation: "reprocess-events", changes: true, counts: true, hint: countHint},
	{operation: "replay-subscription", changes: true, counts: true, hint: countHint},
	{operation: "cancel-replay", changes: true, repeats: true},
}

// omitted has the operations of a tenant that read and are no tools, with the reason.
var omitted = map[string]string{
	"stream-events":               "a stream does not end; list-events has the same events",
	"list-own-keys":               "an assistant does not manage keys",
	"get-subscription-public-key": "a program verifies signatures with it",
}
