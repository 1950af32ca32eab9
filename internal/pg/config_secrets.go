package pg

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
)

// subscriptionSecrets is the JSON that is sealed. Its member names must never change: stored
// values have them.
type subscriptionSecrets struct {
	URL         string          `json:"url"`
	AuthHeader  string          `json:"auth_header,omitempty"`
	Signing     []signingSecret `json:"signing"`
	Ed25519Seed string          `json:"ed25519_seed,omitempty"`
}

type signingSecret struct {
	Secret    string     `json:"secret"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

func (m *mutation) sealSubscription(ctx context.Context, s eventhook.Subscription) (string, error) {
	plain := subscriptionSecrets{URL: s.URL.Reveal(), AuthHeader: s.AuthHeader.Reveal(), Ed25519Seed: s.Ed25519Seed.Reveal()}
	for _, one := range s.Signing {
		plain.Signing = append(plain.Signing, signingSecret{one.Secret.Reveal(), one.ExpiresAt})
	}
	raw, err := json.Marshal(plain)
	if err != nil {
		return "", err
	}
	return m.seal(ctx, subscriptionsSecrets, s.ID, s.TenantID, string(raw))
}

func (db *DB) openSubscription(of eventhook.Subscription, sealed string) (s eventhook.SubscriptionSecrets, err error) {
	text, err := db.open(subscriptionsSecrets, of.ID, of.TenantID, sealed)
	if err != nil {
		return s, err
	}
	var plain subscriptionSecrets
	if err := json.Unmarshal([]byte(text), &plain); err != nil {
		return s, err
	}
	s.URL, s.AuthHeader, s.Ed25519Seed = optionalSecret(plain.URL), optionalSecret(plain.AuthHeader), optionalSecret(plain.Ed25519Seed)
	s.Signing = make([]eventhook.SigningSecret, len(plain.Signing))
	for i, one := range plain.Signing {
		s.Signing[i] = eventhook.SigningSecret{Secret: optionalSecret(one.Secret), ExpiresAt: one.ExpiresAt}
	}
	return s, nil
}

// optionalSecret returns a secret, which is zero for "".
func optionalSecret(text string) eventhook.Secret {
	if text == "" {
		return eventhook.Secret{}
	}
	return eventhook.NewSecret(text)
}

// diffSubscriptionSecrets lists the secrets that differ, without their values.
func diffSubscriptionSecrets(before, after eventhook.SubscriptionSecrets) (changes []eventhook.FieldChange) {
	for _, field := range []struct {
		name     string
		from, to eventhook.Secret
	}{
		{"url", before.URL, after.URL},
		{"auth_header", before.AuthHeader, after.AuthHeader},
		{"ed25519_key", before.Ed25519Seed, after.Ed25519Seed},
	} {
		if !field.from.Equal(field.to) {
			changes = append(changes, eventhook.FieldChange{Field: field.name, From: redactedSecret(field.from, false), To: redactedSecret(field.to, !field.from.IsZero())})
		}
	}
	if !slices.EqualFunc(before.Signing, after.Signing, sameSigning) {
		changes = append(changes, eventhook.FieldChange{Field: "signing_secret", From: secretsChanged.From, To: secretsChanged.To})
	}
	return changes
}

// redactedSecret represents a secret in an audit entry: null, redacted, or redacted and
// changed.
func redactedSecret(s eventhook.Secret, changed bool) json.RawMessage {
	switch {
	case s.IsZero():
		return json.RawMessage("null")
	case changed:
		return secretsChanged.To
	}
	return secretsChanged.From
}

func sameSigning(a, b eventhook.SigningSecret) bool {
	return a.Secret.Equal(b.Secret) && (a.ExpiresAt == nil) == (b.ExpiresAt == nil) && (a.ExpiresAt == nil || a.ExpiresAt.Equal(*b.ExpiresAt))
}

// sealTargets seals the secrets of a route's targets as one text: a JSON array with an object
// or null for each target. It returns "" if no target has secrets.
func (m *mutation) sealTargets(ctx context.Context, r eventhook.Route) (sealed string, err error) {
	if len(targetSecrets(r.Targets)) == 0 {
		return "", nil
	}
	list := make([]string, len(r.Targets))
	for i, t := range r.Targets {
		list[i] = cmp.Or(t.Secrets.Reveal(), "null")
	}
	// Joined and not marshalled, so that each object keeps its exact text.
	return m.seal(ctx, routeTargetSecrets, r.ID, r.TenantID, "["+strings.Join(list, ",")+"]")
}

// openTargets sets the secrets of a route's targets from the text that sealTargets sealed. If
// it fails, it sets none.
func (db *DB) openTargets(r *eventhook.Route, sealed *string) error {
	if sealed == nil {
		return nil
	}
	plain, err := db.open(routeTargetSecrets, r.ID, r.TenantID, *sealed)
	if err != nil {
		return err
	}
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(plain), &list); err != nil || len(list) != len(r.Targets) {
		return errors.New("the secrets do not match the route's targets")
	}
	for i, secrets := range list {
		if string(secrets) != "null" {
			r.Targets[i].Secrets = eventhook.NewSecret(string(secrets))
		}
	}
	return nil
}

// targetSecrets returns the secrets of targets in their order, for comparison.
func targetSecrets(targets []eventhook.Target) (all []eventhook.Secret) {
	for _, t := range targets {
		if !t.Secrets.IsZero() {
			all = append(all, t.Secrets)
		}
	}
	return all
}

// sameTarget reports whether two targets have the same settings and no secrets.
func sameTarget(a, b eventhook.Target) bool {
	return a.Type == b.Type && bytes.Equal(a.Settings, b.Settings) && a.Secrets.IsZero() && b.Secrets.IsZero()
}

// diffRoutes lists the fields that differ between two states of a route. Secrets are only
// reported as changed.
func diffRoutes(before, after eventhook.Route) ([]eventhook.FieldChange, error) {
	changes, err := eventhook.Diff(recordOfRoute(before), recordOfRoute(after))
	if err == nil && !slices.EqualFunc(targetSecrets(before.Targets), targetSecrets(after.Targets), eventhook.Secret.Equal) {
		changes = append(changes, secretsChanged)
	}
	return changes, err
}
