package egress_test

import (
	"errors"
	"net/netip"
	"net/url"
	"testing"

	"github.com/eventhook/eventhook/internal/egress"
)

func TestJudge(t *testing.T) {
	here := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for _, c := range []struct {
		claim, url string
		policy     egress.Policy
		refused    bool
	}{
		{"an address of this machine", "http://127.0.0.1:9000/", egress.Policy{}, true},
		{"its name", "http://localhost:9000/", egress.Policy{}, true},
		{"where clouds hand out credentials, though private networks are allowed", "http://169.254.169.254/", egress.Policy{AllowPrivate: true}, true},
		{"one that is allowed", "http://127.0.0.1:9000/", egress.Policy{AllowedCIDRs: here}, false},
		{"its name, if one of its addresses is", "http://localhost:9000/", egress.Policy{AllowedCIDRs: here}, false},
		{"a name that there is not, which may come to be", "https://nowhere.invalid/", egress.Policy{}, false},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		if err := egress.New(c.policy).LookUpAndCheckHost(t.Context(), u); errors.Is(err, egress.ErrRefused) != c.refused {
			t.Errorf("%s: got %v, want refused %t", c.claim, err, c.refused)
		}
	}
}
