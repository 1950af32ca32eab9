package console

import "slices"

// targetField is a member of a target that the editor shows as a field of its own.
type targetField struct {
	Member, Label, Help, Placeholder   string
	Required, IsNumber, IsBool, IsLong bool
	Options                            []string
}

// onTemporal ends the name of a type whose engine is Temporal. The API has the engine as a member of
// its own.
const onTemporal = " on Temporal"

// targetTypes are the types in the order of the menu.
var targetTypes = []string{"task", "workflow", "workflow" + onTemporal, "publish", "promise", "promise" + onTemporal, "http",
	"nats", "kafka", "amqp", "redis_stream", "sqs", "pubsub"}

const onceSaved = "Shown as [redacted] once it is saved."

var (
	keyField = targetField{Member: "idempotency_key_path", Label: "Path of the idempotency key", Placeholder: "body.id", Help: "A second effect with the same key is skipped."}
	// workFields are the fields of tasks and workflows after their kind.
	workFields = []targetField{
		{Member: "queue", Label: "Queue", Placeholder: "default"}, {Member: "priority", Label: "Priority", Placeholder: "0", IsNumber: true},
		{Member: "max_attempts", Label: "Attempts", Placeholder: "4", IsNumber: true}, keyField,
	}
	workflowKindField  = targetField{Member: "workflow_kind", Label: "Kind of the workflow", Required: true, Help: "Workers choose their handler by it."}
	promiseValueFields = []targetField{{Member: "value_path", Label: "Path of the value", Placeholder: "body.result"},
		{Member: "error_path", Label: "Path of the error", Help: "If the event has a value there, the promise is rejected with it."}}

	usernameField = targetField{Member: "username", Label: "User name"}
	passwordField = sealedField("password", "Password")
	caField       = targetField{Member: "ca", Label: "Authorities in PEM", IsLong: true, Help: "They replace the system's authorities."}
	tlsField      = targetField{Member: "tls", Label: "TLS", IsBool: true, Options: []string{"true", "false"}}
	timeoutField  = targetField{Member: "timeout_seconds", Label: "Timeout in seconds", Placeholder: "10", IsNumber: true}
	bodyField     = targetField{Member: "body", Label: "What is sent", Options: []string{"input", "raw"}, Help: "input: the event, or what the transform returns. raw: the received bytes."}
	keyPathField  = targetField{Member: "key_path", Label: "Path of the key", Placeholder: "body.customer.id", Help: "Brokers keep the order of messages with one key."}

	temporalFields = []targetField{
		{Member: "address", Label: "Address of Temporal", Required: true, Placeholder: "temporal.example:7233"},
		{Member: "namespace", Label: "Namespace", Required: true}, sealedField("api_key", "API key"), tlsField,
		{Member: "certificate", Label: "Client certificate in PEM", IsLong: true}, sealedField("private_key", "Private key of the certificate"), caField, timeoutField,
	}
)

// sealedField returns the field of a secret.
func sealedField(member, label string) targetField {
	return targetField{Member: member, Label: label, Help: onceSaved, IsLong: isLong(member)}
}

// messageFields returns the fields of a target that sends messages: where they go, the fields of all
// messages, and how the broker is reached.
func messageFields(place []targetField, server ...targetField) []targetField {
	return slices.Concat(place, []targetField{keyPathField, bodyField}, server, []targetField{timeoutField})
}

var targetFields = map[string][]targetField{
	"task":     append([]targetField{{Member: "task_kind", Label: "Kind of the task", Required: true, Help: "Workers choose their handler by it."}}, workFields...),
	"workflow": append([]targetField{workflowKindField}, workFields...),
	"workflow" + onTemporal: slices.Concat([]targetField{
		{Member: "workflow_kind", Label: "Type of the workflow", Required: true}, {Member: "queue", Label: "Task queue", Placeholder: "default"},
		{Member: "idempotency_key_path", Label: "Path of the workflow's id", Placeholder: "body.id", Help: "A second workflow with the same id is skipped."},
		{Member: "execution_timeout_seconds", Label: "Timeout of the execution in seconds", Placeholder: "never", IsNumber: true},
		{Member: "run_timeout_seconds", Label: "Timeout of a run in seconds", Placeholder: "never", IsNumber: true}}, temporalFields),
	"publish": {{Member: "event_type", Label: "Type of the published event", Required: true, Placeholder: "payment.succeeded"}, keyField},
	"promise": slices.Concat([]targetField{{Member: "idempotency_key_path", Label: "Path of the promise's key", Required: true, Placeholder: "body.id", Help: "Names the promise that is resolved."}},
		promiseValueFields, []targetField{{Member: "on_missing", Label: "If the promise does not exist yet", Options: []string{"hold", "fail"}}}),
	"promise" + onTemporal: slices.Concat([]targetField{{Member: "signal_name", Label: "Name of the signal", Required: true},
		{Member: "idempotency_key_path", Label: "Path of the workflow's id", Required: true, Placeholder: "body.id", Help: "Names the workflow that gets the signal."}}, promiseValueFields, temporalFields),
	"http": {{Member: "url", Label: "URL", Required: true, Placeholder: "https://internal.example/hook"}, {Member: "method", Label: "Method", Options: []string{"POST", "PUT", "PATCH"}},
		{Member: "body", Label: "What is sent", Options: []string{"input", "raw"}, Help: "input: the event, or what the transform returns. raw: the received bytes and headers."},
		{Member: "auth_header", Label: "Authorization header", Placeholder: "Bearer …", Help: onceSaved}, timeoutField},
	"nats": messageFields([]targetField{{Member: "url", Label: "Servers", Required: true, Placeholder: "tls://nats.example:4222", Help: "URLs, separated by commas."},
		{Member: "subject", Label: "Subject", Required: true, Placeholder: "orders.{key}", Help: "{key} stands for the value at the path of the key."},
		{Member: "delivery", Label: "Delivery", Options: []string{"jetstream", "core"}, Help: "jetstream: a stream stores the message. core: the server has received it."}},
		usernameField, passwordField, sealedField("token", "Token"), sealedField("credentials", "Content of a .creds file"), caField),
	"kafka": messageFields([]targetField{{Member: "brokers", Label: "Brokers", Required: true, Placeholder: "broker-1.example:9092,broker-2.example:9092"},
		{Member: "topic", Label: "Topic", Required: true, Placeholder: "orders"}, {Member: "partition_path", Label: "Path of the partition's number", Placeholder: "body.shard", Help: "Without a value, the key decides."}},
		tlsField, targetField{Member: "mechanism", Label: "SASL mechanism", Options: []string{"plain", "scram-sha-256", "scram-sha-512"}}, usernameField, passwordField, caField),
	"amqp": messageFields([]targetField{{Member: "url", Label: "Server", Required: true, Placeholder: "amqps://rabbit.example/production"},
		{Member: "exchange", Label: "Exchange", Placeholder: "orders", Help: "Without it, the routing key is the name of a queue."},
		{Member: "routing_key", Label: "Routing key", Required: true, Placeholder: "orders.{key}", Help: "{key} stands for the value at the path of the key."}}, usernameField, passwordField, caField),
	"redis_stream": messageFields([]targetField{{Member: "url", Label: "Server", Required: true, Placeholder: "rediss://redis.example:6379/0"},
		{Member: "stream", Label: "Stream", Required: true, Placeholder: "orders:{key}", Help: "{key} stands for the value at the path of the key."},
		{Member: "max_length", Label: "Number of entries that are kept", Placeholder: "all", IsNumber: true}}, usernameField, passwordField, caField),
	"sqs": messageFields([]targetField{{Member: "queue_url", Label: "URL of the queue", Required: true, Placeholder: "https://sqs.eu-west-1.amazonaws.com/123456789012/orders"},
		{Member: "region", Label: "Region", Required: true, Placeholder: "eu-west-1"}}, targetField{Member: "access_key_id", Label: "Access key id", Required: true},
		required(sealedField("secret_access_key", "Secret access key")), sealedField("session_token", "Session token")),
	"pubsub": messageFields([]targetField{{Member: "project", Label: "Project", Required: true, Placeholder: "my-project"}, {Member: "topic", Label: "Topic", Required: true, Placeholder: "orders"},
		{Member: "endpoint", Label: "Regional endpoint", Placeholder: "europe-west1-pubsub.googleapis.com:443"}}, required(sealedField("credentials", "JSON key of a service account"))),
}

// required returns a field that must have a value.
func required(f targetField) targetField {
	f.Required = true
	return f
}
