package console

// brokerFields say how a broker is reached: at which address, and with which credentials. Targets that send
// messages to a broker have them.
type brokerFields struct{ address, login []settingField }

var (
	usernameField = settingField{Member: "username", Label: "User name"}
	passwordField = sealedField("password", "Password")
	caField       = settingField{Member: "ca", Label: "Authorities in PEM", IsLong: true, Help: "They replace the system's authorities."}
	tlsField      = settingField{Member: "tls", Label: "TLS", IsBool: true, Options: []string{"true", "false"}}
)

// brokers are the brokers to which targets send messages. Sources consume the messages of most of them.
var brokers = map[string]brokerFields{
	"nats": {[]settingField{{Member: "url", Label: "Servers", Required: true, Placeholder: "tls://nats.example:4222", Help: "URLs, separated by commas."}},
		[]settingField{usernameField, passwordField, sealedField("token", "Token"), sealedField("credentials", "Content of a .creds file"), caField}},
	"kafka": {[]settingField{{Member: "brokers", Label: "Brokers", Required: true, Placeholder: "broker-1.example:9092,broker-2.example:9092"}},
		[]settingField{tlsField, {Member: "mechanism", Label: "SASL mechanism", Options: []string{"plain", "scram-sha-256", "scram-sha-512"}}, usernameField, passwordField, caField}},
	"amqp": {[]settingField{{Member: "url", Label: "Server", Required: true, Placeholder: "amqps://rabbit.example/production"}},
		[]settingField{usernameField, passwordField, caField}},
	"redis_stream": {[]settingField{{Member: "url", Label: "Server", Required: true, Placeholder: "rediss://redis.example:6379/0"}},
		[]settingField{usernameField, passwordField, caField}},
	"sqs": {[]settingField{{Member: "queue_url", Label: "URL of the queue", Required: true, Placeholder: "https://sqs.eu-west-1.amazonaws.com/123456789012/orders"},
		{Member: "region", Label: "Region", Required: true, Placeholder: "eu-west-1"}},
		[]settingField{{Member: "access_key_id", Label: "Access key id", Required: true},
			required(sealedField("secret_access_key", "Secret access key")), sealedField("session_token", "Session token")}},
	"pubsub": {[]settingField{{Member: "project", Label: "Project", Required: true, Placeholder: "my-project"}, {Member: "topic", Label: "Topic", Required: true, Placeholder: "orders"},
		{Member: "endpoint", Label: "Regional endpoint", Placeholder: "europe-west1-pubsub.googleapis.com:443"}},
		[]settingField{required(sealedField("credentials", "JSON key of a service account"))}},
}
