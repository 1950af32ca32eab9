package eventhook_test

import (
	"testing"

	"github.com/eventhook/eventhook"
)

func TestSameOrigin(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"https://a.example", "https://a.example/", true},
		{"https://a.example/x", "https://a.example/y?z=1", true},
		{"https://a.example/x", "HTTPS://A.Example:443/x", true},
		{"http://a.example:80", "http://a.example", true},
		{"https://a.example:08443", "https://a.example:8443", false},
		{"https://a.example", "http://a.example", false},
		{"https://a.example", "http://a.example:443", false},
		{"https://a.example", "https://a.example:444", false},
		{"https://a.example", "https://b.example", false},
		{"https://a.example", "https://a.example.", false},
		{"https://a.example", "https://a.example.evil.test", false},
		{"https://a.example", "https://a.example@evil.test", false},
		{"https://a.example", `https://evil.test/https://a.example`, false},
		{"https://\u212A.example", "https://k.example", false}, // the Kelvin sign
		{"https://[::1]:443/x", "https://[::1]", true},
		{"https://[::1]", "https://[::2]", false},
		{"ftp://a.example", "ftp://a.example", false},
		{"", "", false},
		{"/x", "/x", false},
		{"ops", "ops", false},
	} {
		if got := eventhook.SameOrigin(c.a, c.b); got != c.want {
			t.Errorf("SameOrigin(%q, %q) is %t, want %t", c.a, c.b, got, c.want)
		}
		if got := eventhook.SameOrigin(c.b, c.a); got != c.want {
			t.Errorf("SameOrigin(%q, %q) is %t, want %t", c.b, c.a, got, c.want)
		}
	}
}
