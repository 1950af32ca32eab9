package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

const aboutAPI = `Management API of Eventhook, a webhook gateway.

Authenticate with the header Authorization: Bearer <key>. The admin key may call every operation, the admin read key every operation that changes nothing. A key of a tenant has scopes and reaches only its own tenant;
for other tenants it gets 404. Operations on a tenant start with /api/tenants/{tenant}/eventhook, operations of the platform with /api/admin.

Errors are application/problem+json (RFC 9457). A problem of an invalid request names every fault in errors: 400 if the request cannot be parsed,
422 if it can be parsed but is invalid. Lists are paged: pass next_cursor of a page as cursor of the next request; null means that there are no more pages.
PATCH changes only the given members. Unknown members and query parameters are errors.`

// tags describes the groups of operations, in alphabetical order.
var tags = []*huma.Tag{
	{Name: "admin", Description: "Tenants, their API keys and the audit log of all tenants. Requires the admin key."},
	{Name: "agents", Description: "Agents are programs in networks that the gateway cannot reach. They claim the deliveries to destinations with their labels and send them."},
	{Name: "audit", Description: "Changes to a tenant's configuration."},
	{Name: "deliveries", Description: "Deliveries of events to subscriptions and to targets of routes, with their attempts."},
	{Name: "event-types", Description: "The catalogue of event types that a tenant publishes, with optional JSON Schemas."},
	{Name: "events", Description: "Events are received webhooks and published events. They can be searched, tested, reprocessed and streamed."},
	{Name: "identity", Description: "The permissions of the key that authorizes a request."},
	{Name: "overview", Description: "Overviews show the traffic of a tenant, its queues, its quotas, and what needs a person."},
	{Name: "promises", Description: "Promises are results that workflows wait for. A webhook or an API call settles them."},
	{Name: "routes", Description: "Routes select events of a source and pass them to targets: tasks, workflows, promises, published events and HTTP requests."},
	{Name: "sources", Description: "Sources receive webhooks from providers at their ingest URL."},
	{Name: "subscriptions", Description: "Subscriptions deliver events, signed, to the URLs of receivers."},
	{Name: "work", Description: "Executions of tasks and workflows, which workers claim and complete."},
}

// completeDocument adds to the OpenAPI document what the registration of operations
// does not: general information, tags, servers and examples. It must be called after
// the last registration. It removes the descriptions of patterns, which JSON Schema does
// not know; the messages that contain them are computed already.
func completeDocument(doc *huma.OpenAPI) {
	doc.Info.Description = aboutAPI
	doc.Info.Contact = &huma.Contact{Name: "Eventhook", URL: "https://github.com/eventhook/eventhook"}
	doc.Servers = []*huma.Server{{URL: "/", Description: "The gateway that serves this document."}}
	doc.Tags = tags
	addProblemExamples(doc)
	all := examples()
	for op := range operationsOf(doc) {
		addExamples(op, all[op.OperationID])
		for _, p := range op.Parameters {
			p.Schema.PatternDescription = ""
		}
	}
	addBatchExamples(doc.Paths[base+"/events"].Post)
	for _, schema := range doc.Components.Schemas.Map() {
		for _, property := range schema.Properties {
			property.PatternDescription = ""
		}
	}
}

// operationsOf yields all operations, ordered by path and then by method.
func operationsOf(doc *huma.OpenAPI) func(yield func(*huma.Operation) bool) {
	return func(yield func(*huma.Operation) bool) {
		for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
			item := doc.Paths[path]
			for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
				if op != nil && !yield(op) {
					return
				}
			}
		}
	}
}

// examplePath returns the example of a path parameter. The meaning of id depends on
// the segment before it.
func examplePath(path, name string) string {
	switch name {
	case "tenant":
		return "acme"
	case "slug":
		return "github"
	case "name":
		return "payment.succeeded"
	}
	before, _, _ := strings.Cut(path, "/{"+name+"}")
	return map[string]string{"keys": exampleKeyID, "events": exampleEventID, "routes": exampleRouteID, "work": exampleExecutionID, "promises": examplePromiseID,
		"subscriptions": exampleSubscriptionID, "agents": exampleAgentID, "deliveries": exampleDeliveryID,
		"replays": exampleReplayID}[before[strings.LastIndexByte(before, '/')+1:]]
}

// addExamples adds the examples of an operation's parameters, request, response and
// errors.
func addExamples(op *huma.Operation, x example) {
	for _, p := range op.Parameters {
		if p.In == "path" {
			p.Example = examplePath(op.Path, p.Name)
		}
	}
	if op.RequestBody != nil {
		op.RequestBody.Content["application/json"].Example = json.RawMessage(x.request)
	}
	for status, response := range op.Responses {
		for contentType, media := range response.Content {
			switch {
			case contentType == problemType:
				media.Examples = map[string]*huma.Example{"problem": {Ref: "#/components/examples/Problem" + status}}
			case x.response != nil && strings.HasPrefix(status, "2"):
				media.Example = x.response
			}
		}
	}
}

// addBatchExamples adds the examples of batches and CloudEvents to the operation
// that publishes events.
func addBatchExamples(op *huma.Operation) {
	requests, response := examplesOfBatches()
	for contentType, request := range requests {
		media := op.RequestBody.Content[contentType]
		if media.Example == nil {
			media.Example = json.RawMessage(request)
			continue
		}
		media.Examples = map[string]*huma.Example{"event": {Value: media.Example}, "batch": {Value: json.RawMessage(request)}}
		media.Example = nil
	}
	answer := op.Responses[strconv.Itoa(http.StatusAccepted)].Content["application/json"]
	answer.Examples = map[string]*huma.Example{"event": {Value: answer.Example}, "batch": {Value: response}}
	answer.Example = nil
}

// addProblemExamples adds one example for each status of an error, to which the
// responses refer as Problem404 and so on.
func addProblemExamples(doc *huma.OpenAPI) {
	doc.Components.Examples = map[string]*huma.Example{}
	for status, p := range map[int]problem{
		http.StatusBadRequest:            {Detail: "The request cannot be parsed.", Errors: []fault{{"query.limit", "must be an integer"}}},
		http.StatusUnauthorized:          {Detail: errUnauthorized.Message},
		http.StatusForbidden:             {Detail: "The API key lacks the scope manage."},
		http.StatusNotFound:              {Detail: "no such tenant"},
		http.StatusRequestTimeout:        {Detail: bodyLate},
		http.StatusConflict:              {Detail: errNotEnabled.Message},
		http.StatusPreconditionFailed:    {Detail: eventhook.ErrStale.Message},
		http.StatusRequestEntityTooLarge: {Detail: "The body is larger than 1048576 bytes."},
		http.StatusUnsupportedMediaType:  {Detail: "The body must be application/json."},
		http.StatusUnprocessableEntity:   {Detail: notValid, Errors: []fault{{"body.name", "is required"}, {"body.limit", "expected number <= 1000"}}},
		http.StatusTooManyRequests:       {Detail: "The tenant has too many requests in flight; try again."},
		http.StatusInternalServerError:   {Detail: internalError},
		http.StatusServiceUnavailable:    {Detail: "The database cannot be reached; try again."},
		http.StatusLoopDetected:          {Detail: errLoop.Message},
	} {
		p.Title, p.Status = http.StatusText(status), status
		doc.Components.Examples["Problem"+strconv.Itoa(status)] = &huma.Example{Summary: p.Title, Value: p}
	}
}
