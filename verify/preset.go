package verify

import "slices"

// Preset is what is known about a provider: how it signs, and where its
// requests carry their id and their type.
type Preset struct {
	ID                  string
	Name                string
	DocumentationURL    string
	Verifier            Config   // without secrets
	IdempotencyKeyPaths []string // header.<name> or body.<path>
	EventTypePaths      []string
	RequiredFields      []string // what a source must give besides the preset's id
	Handshake           string   // the name of the provider's handshake; empty: it has none
}

// Presets returns all presets, sorted by ID. The caller may change them: each
// call makes them anew.
func Presets() []Preset {
	return []Preset{
		{
			ID: "github", Name: "GitHub",
			DocumentationURL:    "https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries",
			Verifier:            Config{Type: "hmac", Header: "X-Hub-Signature-256", Algorithm: "sha256", Encoding: "hex", Prefix: "sha256="},
			IdempotencyKeyPaths: []string{"header.x-github-delivery"},
			EventTypePaths:      []string{"header.x-github-event"},
			RequiredFields:      []string{"secrets"},
		},
		{
			ID: "stripe", Name: "Stripe",
			DocumentationURL:    "https://docs.stripe.com/webhooks",
			Verifier:            Config{Type: "timestamped_hmac", Header: "Stripe-Signature", Algorithm: "sha256", Encoding: "hex", TimestampKey: "t", SignatureKey: "v1", Joiner: "."},
			IdempotencyKeyPaths: []string{"body.id"},
			EventTypePaths:      []string{"body.type"},
			RequiredFields:      []string{"secrets"},
		},
	}
}

// FindPreset returns the preset with this id, and whether there is one.
func FindPreset(id string) (Preset, bool) {
	for _, p := range Presets() {
		if p.ID == id {
			return p, true
		}
	}
	return Preset{}, false
}

// Config completes the preset's verifier with a source's secrets.
func (p Preset) Config(secrets []string) Config {
	c := p.Verifier
	c.Secrets = slices.Clone(secrets)
	return c
}
