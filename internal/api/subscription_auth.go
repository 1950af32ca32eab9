package api

import (
	"context"
	"encoding/json"

	"github.com/eventhook/eventhook"
)

// shownAuth returns the Auth of a subscription with its secrets redacted, nil without one.
func shownAuth(sealed eventhook.Secret) *eventhook.Auth {
	a, err := eventhook.OpenAuth(sealed)
	if err != nil || a == nil {
		return nil
	}
	shown := a.Redacted()
	return &shown
}

// keptAuth returns a written Auth. It keeps the stored secrets that are written as redacted.
func keptAuth(written *eventhook.Auth, stored eventhook.Secret) eventhook.Secret {
	if written == nil {
		return eventhook.Secret{}
	}
	kept := *written
	if have, err := eventhook.OpenAuth(stored); err == nil && have != nil {
		kept = written.KeepSecrets(*have)
	}
	return kept.Seal()
}

// changesAuthType reports whether a patch sets an Auth of another type.
func changesAuthType(have *eventhook.Auth, patch json.RawMessage) bool {
	var named struct {
		Auth struct {
			Type *string `json:"type"`
		} `json:"auth"`
	}
	_ = json.Unmarshal(patch, &named) // the shape of the patch is checked elsewhere
	return have != nil && named.Auth.Type != nil && *named.Auth.Type != have.Type
}

// authToRepeat returns a fault for each secret of the stored Auth that a patch must repeat
// for a new destination and does not.
func authToRepeat(have, want eventhook.Subscription, auth json.RawMessage) (faults eventhook.Faults) {
	var named map[string]json.RawMessage
	switch _ = json.Unmarshal(auth, &named); {
	case have.Auth.IsZero() || string(auth) == "null":
		return nil
	case named == nil:
		faults.Add("body.auth", secretAgain)
		return faults
	}
	given, err := eventhook.OpenAuth(want.Auth)
	if err != nil || given == nil {
		return nil // a fault elsewhere
	}
	for _, m := range given.Members() {
		if m.IsSecret && *m.Text != "" && !hasNewValue(named[m.Name]) {
			faults.Add("body.auth."+m.Name, secretAgain)
		}
	}
	return faults
}

// tokenURL returns the token endpoint of a subscription, "" without one.
func tokenURL(s eventhook.Subscription) string {
	a, err := eventhook.OpenAuth(s.Auth)
	if err != nil || a == nil {
		return ""
	}
	return a.TokenURL
}

// checkTokenURL returns an error if the gateway may not send to a new token endpoint. The
// gateway requests tokens, also for the deliveries that agents send.
func (s *server) checkTokenURL(ctx context.Context, want, have eventhook.Subscription) error {
	const member = "body.auth.token_url"
	url := tokenURL(want)
	switch {
	case url == "" || url == tokenURL(have):
		return nil
	case s.Receivers.RequireHTTPS && isPlainHTTP(url):
		return invalid(member, "must be https://: this gateway does not send unencrypted requests")
	}
	if err := s.Receivers.CheckAddress(ctx, url); err != nil {
		return invalid(member, err.Error())
	}
	return nil
}
