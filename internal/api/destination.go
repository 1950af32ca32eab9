package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/eventhook/eventhook"
)

// secretsToRepeat lists the secrets of a stored subscription that a patch must name
// again and does not. If the patch sends to another scheme, host or port, or to
// agents with another label, the stored auth_header and headers are for a
// destination that they were not given for. A member counts as named with a
// value or null; eventhook.Redacted is no value. The signing secret signs and is
// not sent, so it stays.
func secretsToRepeat(have, want eventhook.Subscription, patch json.RawMessage) (faults eventhook.Faults) {
	if !changesDestination(have, want) {
		return nil
	}
	const again = "must be given again, or be null, since the url or the target_labels name another destination"
	var named, headers map[string]json.RawMessage
	_ = json.Unmarshal(patch, &named) // what cannot be read is another fault
	_ = json.Unmarshal(named["headers"], &headers)
	isHeaderGiven := map[string]bool{} // by canonical name
	for name, value := range headers {
		canonical := http.CanonicalHeaderKey(name)
		isHeaderGiven[canonical] = isHeaderGiven[canonical] || hasNewValue(value)
	}
	if !have.AuthHeader.IsZero() && !hasNewValue(named["auth_header"]) {
		faults.Add("body.auth_header", again)
	}
	// The members auth and token_url belong here, too, as soon as they exist.
	if string(named["headers"]) == "null" {
		return faults
	}
	for _, name := range slices.Sorted(maps.Keys(have.Headers)) {
		if !isHeaderGiven[http.CanonicalHeaderKey(name)] {
			faults.Add("body.headers."+eventhook.SanitizeLabel(name), again)
		}
	}
	return faults
}

// respellHeaders is stored headers under the names that a patch has for them, so that
// the patch changes them: upper and lower case mean the same.
func respellHeaders(have map[string]string, patch json.RawMessage) map[string]string {
	var named, headers map[string]json.RawMessage
	_ = json.Unmarshal(patch, &named) // what cannot be read is another fault
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

// changesDestination reports whether a subscription sends to another destination than the
// stored one: also if the stored URL cannot be opened.
func changesDestination(have, want eventhook.Subscription) bool {
	if !want.SecretsLost && !have.URL.Equal(want.URL) && !eventhook.SameOrigin(have.URL.Reveal(), want.URL.Reveal()) {
		return true
	}
	return slices.ContainsFunc(want.TargetLabels, func(label string) bool { return !slices.Contains(have.TargetLabels, label) })
}

// hasNewValue reports whether a member of a patch holds a value of its own, or null.
func hasNewValue(member json.RawMessage) bool {
	var text string
	return len(member) > 0 && (json.Unmarshal(member, &text) != nil || text != eventhook.Redacted)
}
