package egress_test

import (
	"errors"
	"net/netip"
	"net/url"
	"testing"

	"github.com/eventhook/eventhook/internal/egress"
)

func TestCheckHost(t *testing.T) {
	here := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for _, c := range []struct {
		claim, url string
		policy     egress.Policy
		refused    bool
	}{
		{"loopback address", "http://127.0.0.1:9000/", egress.Policy{}, true},
		{"localhost", "http://localhost:9000/", egress.Policy{}, true},
		{"metadata service of a cloud, with AllowPrivate", "http://169.254.169.254/", egress.Policy{AllowPrivate: true}, true},
		{"allowed loopback address", "http://127.0.0.1:9000/", egress.Policy{AllowedCIDRs: here}, false},
		{"localhost with one allowed address", "http://localhost:9000/", egress.Policy{AllowedCIDRs: here}, false},
		{"unknown name, which may be created later", "https://nowhere.invalid/", egress.Policy{}, false},
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
