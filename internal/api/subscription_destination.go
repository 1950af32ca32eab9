package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/eventhook/eventhook"
)

const secretAgain = "must be given again or be null, because url or target_labels change the destination"

// secretsToRepeat returns a fault for each secret of a stored subscription that a patch
// must repeat and does not. If the patch changes the scheme, host or port of the URL,
// or adds a target label, the stored auth_header, auth and headers were not set for the new
// destination. eventhook.Auth.KeepSecrets has the rule for a new token endpoint. A member
// counts as repeated if it has a value or is null; eventhook.Redacted is not a value. The
// signing secret is not sent to the receiver and need not be repeated.
func secretsToRepeat(have, want eventhook.Subscription, patch json.RawMessage) (faults eventhook.Faults) {
	if !changesDestination(have, want) {
		return nil
	}
	var named, headers map[string]json.RawMessage
	_ = json.Unmarshal(patch, &named) // the shape of the patch is checked elsewhere
	_ = json.Unmarshal(named["headers"], &headers)
	isHeaderGiven := map[string]bool{} // by canonical name
	for name, value := range headers {
		canonical := http.CanonicalHeaderKey(name)
		isHeaderGiven[canonical] = isHeaderGiven[canonical] || hasNewValue(value)
	}
	if !have.AuthHeader.IsZero() && !hasNewValue(named["auth_header"]) {
		faults.Add("body.auth_header", secretAgain)
	}
	faults.Merge("", authToRepeat(have, want, named["auth"]))
	if string(named["headers"]) == "null" {
		return faults
	}
	for _, name := range slices.Sorted(maps.Keys(have.Headers)) {
		if !isHeaderGiven[http.CanonicalHeaderKey(name)] {
			faults.Add("body.headers."+eventhook.SanitizeLabel(name), secretAgain)
		}
	}
	return faults
}

// respellHeaders returns the stored headers with the spelling that a patch uses. Header
// names are case-insensitive, so a header in the patch replaces the stored header in any
// spelling.
func respellHeaders(have map[string]string, patch json.RawMessage) map[string]string {
	var named, headers map[string]json.RawMessage
	_ = json.Unmarshal(patch, &named) // the shape of the patch is checked elsewhere
	_ = json.Unmarshal(named["headers"], &headers)
	spelling := map[string]string{} // by canonical name
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		spelling[http.CanonicalHeaderKey(name)] = name
	}
	all := map[string]string{}
	for name, value := range have {
		as, isNamed := spelling[http.CanonicalHeaderKey(name)]
		if _, isSame := headers[name]; isSame || !isNamed {
			as = name
		}
		all[as] = value
	}
	return all
}

// changesDestination reports whether a patch sends deliveries to another origin or adds
// a target label. If the stored URL cannot be decrypted, a patch that sets a URL counts
// as a change.
func changesDestination(have, want eventhook.Subscription) bool {
	if !want.SecretsLost && !have.URL.Equal(want.URL) && !eventhook.SameOrigin(have.URL.Reveal(), want.URL.Reveal()) {
		return true
	}
	return eventhook.AddsLabel(have.TargetLabels, want.TargetLabels)
}

// hasNewValue reports whether a member of a patch is null or has a value other than
// eventhook.Redacted.
func hasNewValue(member json.RawMessage) bool {
	var text string
	return len(member) > 0 && (json.Unmarshal(member, &text) != nil || text != eventhook.Redacted)
}
