package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/verify"
)

// Any AWS account can send messages that Amazon has signed.
func TestNewSourceMustBePinnedToAnAccount(t *testing.T) {
	r := setUp(t)
	p := r.admin("POST", T("acme")+sources, object{"slug": "sns", "provider": "aws-sns"}).want(http.StatusUnprocessableEntity).problem()
	if got := p.locations(); !slices.Equal(got, []string{"body.options.topic_arn"}) {
		t.Errorf("faults at %v, want body.options.topic_arn", got)
	}
	pinned := object{"slug": "sns", "provider": "aws-sns", "options": object{"topic_arn": "arn:aws:sns:us-east-1:1:t"}}
	r.admin("POST", T("acme")+sources, pinned).want(http.StatusCreated)
	r.admin("PATCH", T("acme")+sources+"/sns", object{"options": object{"topic_arn": nil}}).want(http.StatusUnprocessableEntity)
	for provider, option := range map[string]string{"aws-sns": "topic_arn", "kick": "broadcaster_user_id", "ebay": "topic"} {
		preset, _ := verify.FindPreset(provider, "")
		if !slices.Contains(preset.RequiredFields(), "options."+option) {
			t.Errorf("the provider %s does not list options.%s as required", provider, option)
		}
	}
}

// A source that existed before pins were required keeps working and gets a warning.
func TestExistingSourceWithoutPinKeepsWorking(t *testing.T) {
	r := setUp(t)
	made := r.admin("POST", T("acme")+sources, object{"slug": "old", "provider": "github", "secrets": []string{hush}}).want(http.StatusCreated).object()
	tenant, err := r.db.Tenant(r.Context(), "acme")
	r.must(err)
	_, err = r.db.UpdateSource(r.Context(), eventhook.Actor{Type: eventhook.ActorOperator, Name: "test"}, tenant.ID, "old", 0,
		func(s eventhook.Source) (eventhook.Source, error) {
			faults := verify.Spec{Provider: "aws-sns"}.AssignTo(&s)
			return s, faults.Err("invalid")
		})
	r.must(err)
	path := T("acme") + sources + "/old"
	for _, a := range []*answer{r.admin("GET", path, nil).want(http.StatusOK), r.admin("PATCH", path, object{"name": "Old"}).want(http.StatusOK)} {
		warnings := fmt.Sprint(a.object()["warnings"])
		if warnings != "[options.topic_arn is required: the ARN of the topic whose messages are accepted. Without it, the source accepts requests of every account at the provider]" {
			t.Errorf("warnings %s", warnings)
		}
	}
	after := r.admin("PATCH", path, object{"options": object{"topic_arn": "arn"}}).want(http.StatusOK).object()
	if after["id"] != made["id"] || len(after["warnings"].([]any)) != 0 {
		t.Errorf("got %v, want the same source without a warning", after)
	}
}

func TestARequiredIdempotencyKeyWithoutAPathIsAWarning(t *testing.T) {
	r := setUp(t)
	for claim, c := range map[string]struct {
		body  object
		warns bool
	}{
		"no path":                {object{"slug": "a", "verifier": object{"type": "none"}, "require_idempotency_key": true}, true},
		"no key is required":     {object{"slug": "b", "verifier": object{"type": "none"}}, false},
		"a path":                 {object{"slug": "c", "verifier": object{"type": "none"}, "require_idempotency_key": true, "idempotency_key_paths": []string{"body.id"}}, false},
		"a path of the provider": {object{"slug": "d", "provider": "github", "secrets": []string{hush}, "require_idempotency_key": true}, false},
	} {
		made := r.admin("POST", T("acme")+sources, c.body).want(http.StatusCreated).object()
		if warns := strings.Contains(fmt.Sprint(made["warnings"]), "idempotency_key_paths is empty"); warns != c.warns {
			t.Errorf("%s: warnings %v, want one about idempotency_key_paths: %t", claim, made["warnings"], c.warns)
		}
	}
	path := T("acme") + sources + "/a"
	if got := r.admin("GET", path, nil).want(http.StatusOK).object()["warnings"].([]any); len(got) != 1 {
		t.Errorf("read: warnings %v, want one", got)
	}
	if got := r.admin("PATCH", path, object{"idempotency_key_paths": []string{"body.id"}}).want(http.StatusOK).object()["warnings"].([]any); len(got) != 0 {
		t.Errorf("with a path: warnings %v, want none", got)
	}
}
