package pg

import (
	"testing"

	"github.com/eventhook/eventhook"
)

// A verifier that a new source must not have is refused, but a source that already has it can
// be applied again.
func TestApplyChecksTheVerifierOfANewSource(t *testing.T) {
	const open = `{"provider":"aws-sns"}`
	f := setUp(t)
	strict := f.open(func(o *Options) {
		o.FaultsOfNew = func(have, want eventhook.Secret) (faults eventhook.Faults) {
			if want.Reveal() == open && have.Reveal() != open {
				faults.Add("options.topic_arn", "is missing")
			}
			return faults
		}
	})
	c := globex(func(c *eventhook.TenantConfig) { c.Sources[0].Verifier = eventhook.NewSecret(open) })
	for _, dry := range []bool{true, false} {
		_, err := strict.ApplyTenant(t.Context(), operator, c, ApplyOptions{DryRun: dry})
		const want = "the source cannot be applied: sources[crm].options.topic_arn: is missing"
		if eventhook.KindOf(err) != eventhook.KindInvalid || err.Error() != want {
			t.Errorf("dry: %t: got %v, want %s", dry, err, want)
		}
	}
	f.applyWith(c, ApplyOptions{}) // as an earlier version did
	if _, err := strict.ApplyTenant(t.Context(), operator, c, ApplyOptions{}); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	c.Sources[0].Name = "Another"
	if _, err := strict.ApplyTenant(t.Context(), operator, c, ApplyOptions{}); err != nil {
		t.Errorf("another name: %v", err)
	}
}
