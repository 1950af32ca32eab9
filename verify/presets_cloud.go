package verify

import "net/http"

// cloudPresets are cloud platforms.
var cloudPresets = []Preset{
	{
		ID: "aws-sns", Name: "Amazon SNS",
		DocumentationURL:    "https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html",
		Verifier:            Config{Type: "aws_sns", Claims: map[string]string{"TopicArn": "{option.topic_arn}"}},
		Options:             []Option{{Name: "topic_arn", About: "the ARN of the topic whose messages are accepted", Pins: true}},
		IdempotencyKeyPaths: []string{"body.MessageId"},
		EventTypePaths:      []string{"body.Type"},
		Handshake:           "aws-sns",
		Uncovered:           "MessageAttributes are not signed. Every AWS account can send validly signed messages: the option topic_arn restricts the source to one topic.",
		Note:                "The subscription is confirmed automatically.",
	},
	{
		ID: "google-pubsub", Name: "Google Cloud Pub/Sub",
		DocumentationURL: "https://cloud.google.com/pubsub/docs/authenticate-push-subscriptions",
		Verifier: Config{Type: "jwt", Header: "Authorization", Prefix: "Bearer ", Algorithm: "RS256", KeySetURL: "https://www.googleapis.com/oauth2/v3/certs",
			Issuers: []string{"https://accounts.google.com", "accounts.google.com"}, Audience: "{option.audience}",
			Claims:           map[string]string{"email": "{option.email}", "email_verified": "true"},
			ToleranceSeconds: new(0)}, // Pub/Sub reuses a token until it expires, one hour later
		Options: []Option{
			{Name: "email", About: "the email address of the push subscription's service account", Required: true},
			{Name: "audience", About: "the push subscription's audience", Default: "{url}"},
		},
		IdempotencyKeyPaths: []string{"body.message.messageId"},
		EventTypePaths:      []string{"body.message.attributes.event_type", "body.message.attributes.eventType", "body.message.attributes.ce-type"},
		Uncovered:           "Requests carry a signed token. The token does not cover the body.",
	},
	{
		ID: "google-drive-calendar", Scheme: "header-token", Name: "Google Drive, Google Calendar",
		DocumentationURL:    "https://developers.google.com/workspace/drive/api/guides/push",
		Verifier:            tokenIn("X-Goog-Channel-Token"),
		IdempotencyKeyPaths: []string{"header.x-goog-channel-id + header.x-goog-message-number"},
		EventTypePaths:      []string{"header.x-goog-resource-state"},
		Handshake:           "google-sync",
		Uncovered:           onlyToken,
		Note:                "The secret is the token of the notification channel. Request bodies are empty.",
	},
	{
		ID: "microsoft-graph", Name: "Microsoft Graph",
		DocumentationURL: "https://learn.microsoft.com/en-us/graph/change-notifications-delivery-webhooks",
		Verifier:         Config{Type: "api_key", Path: "value.#.clientState"},
		EventTypePaths:   []string{"body.value.0.changeType", "body.value.0.lifecycleEvent"},
		Handshake:        "microsoft",
		Uncovered:        onlyToken,
		Note:             "The secret is the subscription's clientState.",
	},
	{
		ID: "sharepoint", Name: "SharePoint",
		DocumentationURL: "https://learn.microsoft.com/en-us/sharepoint/dev/apis/webhooks/overview-sharepoint-webhooks",
		Verifier:         Config{Type: "api_key", Path: "value.#.clientState"},
		Handshake:        "microsoft",
		Uncovered:        onlyToken,
		Note:             "The secret is the subscription's clientState.",
	},
	{
		ID: "azure-event-grid", Scheme: "query-token", Name: "Azure Event Grid",
		DocumentationURL:    "https://learn.microsoft.com/en-us/azure/event-grid/end-point-validation-event-grid-events-schema",
		Verifier:            Config{Type: "api_key", Query: "token"},
		IdempotencyKeyPaths: []string{"sha256.body"},
		EventTypePaths:      []string{"body.0.eventType", "body.0.type", "body.type"},
		Methods:             []string{http.MethodOptions},
		Handshake:           "azure-event-grid",
		Uncovered:           onlyToken,
		Note:                "Event Grid does not sign requests: register the URL with ?token=<the secret> at the end.",
	},
	{
		ID: "fastly", Scheme: "header-token", Name: "Fastly log streaming",
		DocumentationURL: "https://www.fastly.com/documentation/guides/integrations/logging-endpoints/log-streaming-https/",
		Verifier:         tokenIn("Authorization"),
		Options:          []Option{{Name: "service_ids", About: "a comma-separated list of the ids of the services that may send logs, or * for all", Required: true}},
		Handshake:        "fastly",
		Uncovered:        onlyToken,
		Note:             "The secret is the value of the custom header Authorization. Before it sends logs, Fastly requests /.well-known/fastly/logging/challenge.",
	},
}
