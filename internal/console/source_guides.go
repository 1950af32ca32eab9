package console

import "github.com/eventhook/eventhook/client"

// guide has the steps at a provider that the API does not know.
type guide struct {
	// Where leads to the webhooks in the provider's own pages.
	Where string
	// Secret tells where the secret comes from. ChoosesSecret is true if the person invents it, so
	// that the console can generate it.
	Secret        string
	ChoosesSecret bool
	// Header carries the signature.
	Header string
	// Then is the last step at the provider, after the source is created; "" for no step.
	Then string
}

// guides are those of the providers that are used most.
var guides = map[string]guide{
	"github": {"In GitHub, open the repository or organization, then Settings → Webhooks → Add webhook.", "Choose a secret, or let the console generate one, and enter the same one in GitHub's field Secret.", true,
		"X-Hub-Signature-256", "Choose the content type application/json and the events you need. GitHub sends a ping at once."},
	"gitlab": {"In GitLab, open the project or group, then Settings → Webhooks → Add new webhook.", "Choose a secret token and enter the same one in GitLab's field Secret token.", true,
		"X-Gitlab-Token", "Choose the triggers, save, and use Test → Push events to send the first one."},
	"stripe": {"In Stripe, open Workbench → Webhooks → Add destination, and choose the events.", "Stripe shows the signing secret (whsec_…) after the destination is created: Reveal next to Signing secret.", false,
		"Stripe-Signature", "Send a test event from the destination's page."},
	"shopify": {"In Shopify's admin, open Settings → Notifications → Webhooks → Create webhook, with the format JSON.", "Shopify shows the signing key below the list of webhooks; for an app it is the client secret.", false,
		"X-Shopify-Hmac-Sha256", "Use Send test in the menu of the webhook."},
	"slack": {"In Slack, open api.slack.com/apps → your app → Event Subscriptions, and switch Enable Events on.", "The signing secret is under Basic Information → App Credentials.", false,
		"X-Slack-Signature", "Enter the URL as Request URL. Slack verifies it at once, which the gateway answers; then subscribe to events."},
	"twilio": {"In Twilio's console, open the phone number or the service, and its section Messaging or Voice.", "The secret is the account's Auth Token, on the first page of the console.", false,
		"X-Twilio-Signature", "Enter the URL with the method HTTP POST, exactly as it is shown here: the signature covers it."},
	"sendgrid": {"In SendGrid, open Settings → Mail Settings → Event Webhooks → Create new webhook.", "Enable Signed Event Webhook; SendGrid then shows the verification key.", false,
		"X-Twilio-Email-Event-Webhook-Signature", "Use Test your integration to send the first events."},
	"paddle": {"In Paddle, open Developer tools → Notifications → New destination, of type webhook.", "Paddle shows the secret key when you edit the destination.", false,
		"Paddle-Signature", "Use Simulations to send the first event."},
	"clerk": {"In Clerk's dashboard, open Configure → Webhooks → Add Endpoint.", "Clerk shows the signing secret (whsec_…) on the page of the endpoint.", false,
		"svix-signature", "Use the tab Testing of the endpoint to send an example."},
	"linear": {"In Linear, open Settings → API → Webhooks → New webhook.", "Linear shows the signing secret on the page of the webhook.", false,
		"Linear-Signature", "Change an issue of the team to send the first event."},
	"discord": {"In Discord's developer portal, open your application → Webhooks (or General Information for interactions).", "The public key is on the page General Information.", false,
		"X-Signature-Ed25519", "Enter the URL as endpoint. Discord verifies it at once, which the gateway answers."},
	"jira": {"In Jira, open Settings → System → Webhooks → Create a webhook.", "Choose a secret, or let Jira generate it, and use the same one here.", true,
		"X-Hub-Signature", "Choose the events, save, and change an issue to send the first one."},
	"telegram": {"Call setWebhook of Telegram's Bot API with the URL.", "Choose a secret and pass it as secret_token to setWebhook.", true,
		"X-Telegram-Bot-Api-Secret-Token", "Write a message to the bot to send the first update."},
	"hubspot": {"In HubSpot, open your app in the developer account, then Webhooks.", "The secret is the app's client secret, on the page Auth.", false,
		"X-HubSpot-Signature-v3", "Create a subscription and activate it; Test sends an example."},
}

// popularProviders are shown first, in this order.
var popularProviders = []string{"github", "stripe", "shopify", "slack", "gitlab", "twilio", "standard-webhooks"}

// guideOf returns the steps of a provider: its own, or those that hold for every provider.
func guideOf(provider, name string) guide {
	if g, ok := guides[provider]; ok {
		return g
	}
	return guide{Where: "In " + name + ", open the page on which webhooks are set up; the documentation below names it.",
		Secret:        "Use the secret that " + name + " shows. If you may choose it yourself, let the console generate it and enter the same one there.",
		ChoosesSecret: true, Then: "Choose the events you need, save, and send a test event if " + name + " offers one."}
}

// brokerNames are the brokers whose messages a source can consume.
var brokerNames = map[client.ConsumeType]string{"nats": "NATS JetStream", "kafka": "Kafka", "amqp": "AMQP", "redis_stream": "a Redis stream", "sqs": "Amazon SQS"}

// verifierNames are the kinds of custom verification that the console spells out; others are JSON.
var verifierNames = map[string]string{"hmac": "HMAC signature", "api_key": "API key", "basic_auth": "Basic authentication", "none": "not verified"}

// verifierTypes are the kinds of verifierNames in the order of the page.
var verifierTypes = []string{"hmac", "api_key", "basic_auth", "none"}
