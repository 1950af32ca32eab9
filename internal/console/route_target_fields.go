package console

import "slices"

// onTemporal ends the name of a type whose engine is Temporal. The API has the engine as a member of
// its own.
const onTemporal = " on Temporal"

// targetTypes are the types in the order of the menu.
var targetTypes = []string{"task", "workflow", "workflow" + onTemporal, "publish", "promise", "promise" + onTemporal, "http",
	"nats", "kafka", "amqp", "redis_stream", "sqs", "pubsub"}

var (
	keyField = settingField{Member: "idempotency_key_path", Label: "Path of the idempotency key", Placeholder: "body.id", Help: "A second effect with the same key is skipped."}
	// workFields are the fields of tasks and workflows after their kind.
	workFields = []settingField{
		{Member: "queue", Label: "Queue", Placeholder: "default"}, {Member: "priority", Label: "Priority", Placeholder: "0", IsNumber: true},
		{Member: "max_attempts", Label: "Attempts", Placeholder: "4", IsNumber: true}, keyField,
	}
	workflowKindField  = settingField{Member: "workflow_kind", Label: "Kind of the workflow", Required: true, Help: "Workers choose their handler by it."}
	promiseValueFields = []settingField{{Member: "value_path", Label: "Path of the value", Placeholder: "body.result"},
		{Member: "error_path", Label: "Path of the error", Help: "If the event has a value there, the promise is rejected with it."}}

	timeoutField = settingField{Member: "timeout_seconds", Label: "Timeout in seconds", Placeholder: "10", IsNumber: true}
	bodyField    = settingField{Member: "body", Label: "What is sent", Options: []string{"input", "raw"}, Help: "input: the event, or what the transform returns. raw: the received bytes."}
	keyPathField = settingField{Member: "key_path", Label: "Path of the key", Placeholder: "body.customer.id", Help: "Brokers keep the order of messages with one key."}

	temporalFields = []settingField{
		{Member: "address", Label: "Address of Temporal", Required: true, Placeholder: "temporal.example:7233"},
		{Member: "namespace", Label: "Namespace", Required: true}, sealedField("api_key", "API key"), tlsField,
		{Member: "certificate", Label: "Client certificate in PEM", IsLong: true}, sealedField("private_key", "Private key of the certificate"), caField, timeoutField,
	}
)

// messageFields returns the fields of a target that sends messages to a broker: where the broker is, where the
// messages go, the fields of all messages, and the credentials.
func messageFields(broker string, place ...settingField) []settingField {
	b := brokers[broker]
	return slices.Concat(b.address, place, []settingField{keyPathField, bodyField}, b.login, []settingField{timeoutField})
}

var targetFields = map[string][]settingField{
	"task":     append([]settingField{{Member: "task_kind", Label: "Kind of the task", Required: true, Help: "Workers choose their handler by it."}}, workFields...),
	"workflow": append([]settingField{workflowKindField}, workFields...),
	"workflow" + onTemporal: slices.Concat([]settingField{
		{Member: "workflow_kind", Label: "Type of the workflow", Required: true}, {Member: "queue", Label: "Task queue", Placeholder: "default"},
		{Member: "idempotency_key_path", Label: "Path of the workflow's id", Placeholder: "body.id", Help: "A second workflow with the same id is skipped."},
		{Member: "execution_timeout_seconds", Label: "Timeout of the execution in seconds", Placeholder: "never", IsNumber: true},
		{Member: "run_timeout_seconds", Label: "Timeout of a run in seconds", Placeholder: "never", IsNumber: true}}, temporalFields),
	"publish": {{Member: "event_type", Label: "Type of the published event", Required: true, Placeholder: "payment.succeeded"}, keyField},
	"promise": slices.Concat([]settingField{{Member: "idempotency_key_path", Label: "Path of the promise's key", Required: true, Placeholder: "body.id", Help: "Names the promise that is resolved."}},
		promiseValueFields, []settingField{{Member: "on_missing", Label: "If the promise does not exist yet", Options: []string{"hold", "fail"}}}),
	"promise" + onTemporal: slices.Concat([]settingField{{Member: "signal_name", Label: "Name of the signal", Required: true},
		{Member: "idempotency_key_path", Label: "Path of the workflow's id", Required: true, Placeholder: "body.id", Help: "Names the workflow that gets the signal."}}, promiseValueFields, temporalFields),
	"http": {{Member: "url", Label: "URL", Required: true, Placeholder: "https://internal.example/hook"}, {Member: "method", Label: "Method", Options: []string{"POST", "PUT", "PATCH"}},
		{Member: "body", Label: "What is sent", Options: []string{"input", "raw"}, Help: "input: the event, or what the transform returns. raw: the received bytes and headers."},
		{Member: "auth_header", Label: "Authorization header", Placeholder: "Bearer …", Help: onceSaved}, timeoutField},
	"nats": messageFields("nats",
		settingField{Member: "subject", Label: "Subject", Required: true, Placeholder: "orders.{key}", Help: "{key} stands for the value at the path of the key."},
		settingField{Member: "delivery", Label: "Delivery", Options: []string{"jetstream", "core"}, Help: "jetstream: a stream stores the message. core: the server has received it."}),
	"kafka": messageFields("kafka", settingField{Member: "topic", Label: "Topic", Required: true, Placeholder: "orders"},
		settingField{Member: "partition_path", Label: "Path of the partition's number", Placeholder: "body.shard", Help: "Without a value, the key decides."}),
	"amqp": messageFields("amqp", settingField{Member: "exchange", Label: "Exchange", Placeholder: "orders", Help: "Without it, the routing key is the name of a queue."},
		settingField{Member: "routing_key", Label: "Routing key", Required: true, Placeholder: "orders.{key}", Help: "{key} stands for the value at the path of the key."}),
	"redis_stream": messageFields("redis_stream",
		settingField{Member: "stream", Label: "Stream", Required: true, Placeholder: "orders:{key}", Help: "{key} stands for the value at the path of the key."},
		settingField{Member: "max_length", Label: "Number of entries that are kept", Placeholder: "all", IsNumber: true}),
	"sqs":    messageFields("sqs"),
	"pubsub": messageFields("pubsub"),
}
