package verify

import "github.com/eventhook/eventhook"

// hmacIn returns the configuration of an HMAC-SHA256 of the body in a header.
func hmacIn(header, encoding, prefix string) Config {
	return Config{Type: "hmac", Header: header, Algorithm: "sha256", Encoding: encoding, Prefix: prefix}
}

// tokenIn returns the configuration of a token in a header.
func tokenIn(header string) Config { return Config{Type: "api_key", Header: header} }

// Values of Preset.Uncovered that several presets share.
const (
	onlyToken = "Requests carry a token and no signature: any sender that knows the token can send any body."
	onlyBasic = "Requests carry a password and no signature: any sender that knows the password can send any body."
)

// codePresets are providers that host, build, deploy and monitor code.
var codePresets = []Preset{
	{
		ID: "github", Name: "GitHub",
		DocumentationURL:    "https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries",
		Verifier:            hmacIn("X-Hub-Signature-256", "hex", "sha256="),
		IdempotencyKeyPaths: []string{"header.x-github-delivery"},
		EventTypePaths:      []string{"header.x-github-event"},
		Note:                "The secret is the webhook's Secret in GitHub. GitHub's ping is stored as an event of type ping.",
		Repeats:             "the events membership, member, workflow_dispatch and repository_dispatch carry no timestamp, so adding, removing and adding the same member sends the same bytes twice",
	},
	{
		ID: "gitlab", Name: "GitLab (secret token)",
		DocumentationURL:    "https://docs.gitlab.com/user/project/integrations/webhooks/",
		Verifier:            tokenIn("X-Gitlab-Token"),
		IdempotencyKeyPaths: []string{"header.idempotency-key", "header.x-gitlab-event-uuid"},
		EventTypePaths:      []string{"header.x-gitlab-event"},
		Uncovered:           onlyToken,
		Note:                "The secret is the webhook's secret token. If your GitLab version offers a signing token, use the scheme gitlab-signing instead.",
	},
	{
		ID: "gitlab", Scheme: "gitlab-signing", Name: "GitLab (signing token)",
		DocumentationURL:    "https://docs.gitlab.com/user/project/integrations/webhooks/",
		Verifier:            Config{Type: "standard_webhooks", Header: "webhook-signature"},
		IdempotencyKeyPaths: []string{"header.webhook-id"},
		EventTypePaths:      []string{"header.x-gitlab-event"},
	},
	{
		ID: "bitbucket", Name: "Bitbucket",
		DocumentationURL:    "https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/",
		Verifier:            hmacIn("X-Hub-Signature", "hex", "sha256="),
		IdempotencyKeyPaths: []string{"header.x-request-uuid", "header.x-request-id"},
		EventTypePaths:      []string{"header.x-event-key"},
		Note:                "The header is X-Hub-Signature without -256, although the hash is SHA-256.",
		Repeats:             "pushing a branch back and forth sends the same bytes again",
	},
	{
		ID: "jira", Name: "Jira Cloud",
		DocumentationURL:    "https://developer.atlassian.com/cloud/jira/platform/webhooks/",
		Verifier:            hmacIn("X-Hub-Signature", "hex", "sha256="),
		IdempotencyKeyPaths: []string{"header.x-atlassian-webhook-identifier"},
		EventTypePaths:      []string{"body.webhookEvent"},
		ReplayProtection:    eventhook.ReplayBody,
	},
	{
		ID: "gitea", Name: "Gitea, Forgejo",
		DocumentationURL:    "https://docs.gitea.com/usage/webhooks",
		Verifier:            Config{Type: "hmac", Header: "X-Gitea-Signature", AlsoHeaders: []string{"X-Forgejo-Signature"}},
		IdempotencyKeyPaths: []string{"header.x-gitea-delivery", "header.x-forgejo-delivery"},
		EventTypePaths:      []string{"header.x-gitea-event", "header.x-forgejo-event"},
		Repeats:             "not every event carries a timestamp",
	},
	{
		ID: "linear", Name: "Linear",
		DocumentationURL: "https://linear.app/developers/webhooks",
		Verifier: Config{Type: "timestamped_hmac", Header: "Linear-Signature", Signed: "{body}",
			TimestampPath: "webhookTimestamp", TimestampUnit: "milliseconds", ToleranceSeconds: new(60)},
		IdempotencyKeyPaths: []string{"header.linear-delivery"},
		EventTypePaths:      []string{"body.type + body.action", "body.type"},
		Note:                "The timestamp is read from the signed body. The timestamp header is not signed and is ignored.",
		ReplayProtection:    eventhook.ReplayBody,
	},
	{
		ID: "vercel", Name: "Vercel",
		DocumentationURL:    "https://vercel.com/docs/webhooks/webhooks-api",
		Verifier:            Config{Type: "hmac", Header: "X-Vercel-Signature", Algorithm: "sha1"},
		IdempotencyKeyPaths: []string{"body.id"},
		EventTypePaths:      []string{"body.type"},
	},
	{
		ID: "netlify", Name: "Netlify",
		DocumentationURL:    "https://docs.netlify.com/deploy/deploy-notifications/",
		Verifier:            Config{Type: "jwt", Header: "X-Webhook-Signature", Algorithm: "HS256", Issuers: []string{"netlify"}, BodyHashClaim: "sha256"},
		IdempotencyKeyPaths: []string{"sha256.body"},
		EventTypePaths:      []string{"header.x-netlify-event", "body.state"},
	},
	{
		ID: "heroku", Name: "Heroku",
		DocumentationURL:    "https://devcenter.heroku.com/articles/app-webhooks",
		Verifier:            hmacIn("Heroku-Webhook-Hmac-SHA256", "base64", ""),
		IdempotencyKeyPaths: []string{"body.id"},
		EventTypePaths:      []string{"body.resource + body.action"},
	},
	{
		ID: "circleci", Name: "CircleCI",
		DocumentationURL:    "https://circleci.com/docs/guides/integration/outbound-webhooks/",
		Verifier:            hmacIn("circleci-signature", "hex", "v1="),
		IdempotencyKeyPaths: []string{"body.id"},
		EventTypePaths:      []string{"body.type", "header.circleci-event-type"},
		Note:                "The header can list several signature versions; only v1 is checked.",
	},
	{
		ID: "buildkite", Name: "Buildkite",
		DocumentationURL:    "https://buildkite.com/docs/apis/webhooks/pipelines",
		Verifier:            Config{Type: "timestamped_hmac", Header: "X-Buildkite-Signature", TimestampKey: "timestamp", SignatureKey: "signature"},
		IdempotencyKeyPaths: []string{"sha256.body"},
		EventTypePaths:      []string{"body.event", "header.x-buildkite-event"},
	},
	{
		ID: "buildkite", Scheme: "buildkite-token", Name: "Buildkite (token)",
		DocumentationURL:    "https://buildkite.com/docs/apis/webhooks/pipelines",
		Verifier:            tokenIn("X-Buildkite-Token"),
		IdempotencyKeyPaths: []string{"sha256.body"},
		EventTypePaths:      []string{"body.event", "header.x-buildkite-event"},
		Uncovered:           onlyToken,
		Note:                "Prefer the scheme buildkite, which signs requests.",
	},
	{
		ID: "terraform-cloud", Name: "HCP Terraform",
		DocumentationURL:    "https://developer.hashicorp.com/terraform/cloud-docs/workspaces/settings/notifications",
		Verifier:            Config{Type: "hmac", Header: "X-TFE-Notification-Signature", Algorithm: "sha512"},
		IdempotencyKeyPaths: []string{"body.run_id + body.notifications.0.trigger + body.notifications.0.run_updated_at"},
		EventTypePaths:      []string{"body.notifications.0.trigger"},
	},
	{
		ID: "sentry", Name: "Sentry",
		DocumentationURL:    "https://docs.sentry.io/organization/integrations/integration-platform/webhooks/",
		Verifier:            Config{Type: "hmac", Header: "Sentry-Hook-Signature", AlsoHeaders: []string{"Sentry-App-Signature"}},
		IdempotencyKeyPaths: []string{"header.request-id"},
		EventTypePaths:      []string{"header.sentry-hook-resource + body.action", "header.sentry-hook-resource"},
		Note:                "The secret is the integration's client secret.",
		Repeats:             "resolving, reopening and resolving an issue can send the same bytes again",
	},
	{
		ID: "pagerduty", Name: "PagerDuty",
		DocumentationURL:    "https://developer.pagerduty.com/docs/verifying-webhook-signatures",
		Verifier:            hmacIn("X-PagerDuty-Signature", "hex", "v1="),
		IdempotencyKeyPaths: []string{"body.event.id"},
		EventTypePaths:      []string{"body.event.event_type"},
	},
	{
		ID: "cursor", Name: "Cursor",
		DocumentationURL:    "https://cursor.com/docs/cloud-agent/api/webhooks",
		Verifier:            hmacIn("X-Webhook-Signature", "hex", "sha256="),
		IdempotencyKeyPaths: []string{"header.x-webhook-id"},
		EventTypePaths:      []string{"body.event", "header.x-webhook-event"},
		ReplayProtection:    eventhook.ReplayBody,
	},
	{
		ID: "replicate", Scheme: "standard-webhooks", Name: "Replicate",
		DocumentationURL:    "https://replicate.com/docs/topics/webhooks/verify-webhook",
		Verifier:            Config{Type: "standard_webhooks", Header: "webhook-signature"},
		IdempotencyKeyPaths: []string{"header.webhook-id"},
		EventTypePaths:      []string{"body.status"},
	},
	{
		ID: "openai", Scheme: "standard-webhooks", Name: "OpenAI",
		DocumentationURL:    "https://platform.openai.com/docs/guides/webhooks",
		Verifier:            Config{Type: "standard_webhooks", Header: "webhook-signature"},
		IdempotencyKeyPaths: []string{"header.webhook-id"},
		EventTypePaths:      []string{"body.type"},
	},
	{
		ID: "elevenlabs", Name: "ElevenLabs",
		DocumentationURL:    "https://elevenlabs.io/docs/overview/administration/webhooks",
		Verifier:            Config{Type: "timestamped_hmac", Header: "ElevenLabs-Signature", SignatureKey: "v0", ToleranceSeconds: new(1800), AllowFuture: true},
		IdempotencyKeyPaths: []string{"sha256.body"},
		EventTypePaths:      []string{"body.type"},
	},
}
