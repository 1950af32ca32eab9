package agent

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func list(t *testing.T, entries ...string) AllowList {
	t.Helper()
	l, err := ParseAllowList(entries)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAllowListDecidesAboutURLs(t *testing.T) {
	for _, c := range []struct {
		entry string
		url   string
		want  bool
	}{
		{"https://ci.example.com/hooks", "https://ci.example.com/hooks", true},
		{"https://ci.example.com/hooks", "https://CI.example.com:443/hooks/a?b=/../c", true},
		{"https://ci.example.com/hooks", "https://ci.example.com./hooks/", true},
		{"https://ci.example.com/hooks/", "https://ci.example.com/hooks", true},
		{"https://ci.example.com/hooks", "https://ci.example.com/hooksters", false},
		{"https://ci.example.com/hooks", "https://ci.example.com/", false},
		{"https://ci.example.com/hooks", "http://ci.example.com/hooks", false},
		{"https://ci.example.com/hooks", "https://ci.example.com:8443/hooks", false},
		{"https://ci.example.com/hooks", "https://ci.example.com.evil.example/hooks", false},
		{"https://ci.example.com/hooks", "https://evil.example/hooks", false},
		{"https://ci.example.com/hooks", "https://ci.example.com/hooks/../admin", false},
		{"https://ci.example.com/hooks", "https://ci.example.com/hooks/%2e%2e/admin", false},
		{"https://ci.example.com/hooks", "https://ci.example.com/hooks/..%2Fadmin", false},
		{"https://ci.example.com/hooks", "https://ci.example.com/hooks/%252e%252e/admin", false},
		{"https://ci.example.com/hooks", "https://ci.example.com/hooks/..;a=b/admin", false},
		{"https://ci.example.com/hooks", `https://ci.example.com/hooks/..%5cadmin`, false},
		{"https://ci.example.com", "https://ci.example.com/any/../path", true},
		{"http://ci.example.com:8080", "http://ci.example.com:8080/x", true},
		{"http://ci.example.com:8080", "http://ci.example.com/x", false},
		{"https://bücher.example", "https://xn--bcher-kva.example/", true},
		{"http://10.0.0.0/8", "http://10.1.2.3:8080/x", true},
		{"http://10.0.0.0/8", "http://１０.1.2.3/x", true},
		{"http://10.0.0.0/8", "http://[::ffff:10.1.2.3]/x", true},
		{"http://10.0.0.0/8", "http://11.1.2.3/x", false},
		{"http://10.0.0.0/8", "https://10.1.2.3/x", false},
		{"http://10.0.0.0/8", "http://ci.internal/x", true}, // its addresses are checked
		{"https://10.0.0.0/8", "http://ci.internal/x", false},
		{"http://10.0.0.0/8:8080", "http://10.1.2.3:8080/x", true},
		{"http://10.0.0.0/8:8080", "http://10.1.2.3/x", false},
		{"http://10.0.0.1:80/8", "http://10.0.0.1/8/x", true}, // a URL
		{"http://10.0.0.1:80/8", "http://10.0.0.1/9", false},
		{"10.0.0.0/8", "https://10.1.2.3/x", true},
		{"10.0.0.0/8", "http://10.1.2.3/x", true},
		{"http://[fd00::]/8", "http://[fd00::1]:8080/x", true},
		{"fd00::/8", "http://[fd00::1]/x", true},
		{"fd00::/8", "http://[fe80::1]/x", false},
		{"http://10.0.0.7", "http://10.0.0.7/x", true},
		{"http://10.0.0.7", "http://10.0.0.8/x", false},
		{"0.0.0.0/0", "http://127.0.0.1/x", false},
		{"0.0.0.0/0", "http://169.254.169.254/latest/meta-data", false},
		{"0.0.0.0/0", "http://0.0.0.0/x", false},
		{"0.0.0.0/0", "http://198.41.0.4/x", true},
		{"127.0.0.0/8", "http://127.0.0.1/x", true},
		{"169.254.169.254/32", "http://169.254.169.254/x", true},
		{"http://169.254.169.254", "http://169.254.169.254/x", true},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		if _, got := list(t, c.entry).find(u); got != c.want {
			t.Errorf("--allow %s, %s: got %t, want %t", c.entry, c.url, got, c.want)
		}
	}
	if _, ok := (AllowList{}).find(&url.URL{Scheme: "http", Host: "10.0.0.1"}); ok {
		t.Error("an empty list allows 10.0.0.1, want nothing")
	}
}

func TestAllowListDecidesAboutAddressesOfNames(t *testing.T) {
	for _, c := range []struct {
		entry, url, address string
		want                bool
	}{
		{"http://10.0.0.0/8", "http://ci.internal", "10.1.2.3", true},
		{"http://10.0.0.0/8", "http://ci.internal", "::ffff:10.1.2.3", true},
		{"http://10.0.0.0/8", "http://ci.internal", "192.168.0.1", false},
		{"http://10.0.0.0/8", "http://ci.internal", "127.0.0.1", false},
		{"http://10.0.0.0/8", "http://0x7f.1", "127.0.0.1", false},
		{"127.0.0.0/8", "http://localhost", "127.0.0.1", true},
		{"http://ci.internal", "http://ci.internal", "192.168.0.1", true},
		{"http://ci.internal", "http://ci.internal", "198.41.0.4", true},
		{"http://ci.internal", "http://ci.internal", "127.0.0.1", false},
		{"http://ci.internal", "http://ci.internal", "::1", false},
		{"http://ci.internal", "http://ci.internal", "169.254.169.254", false},
		{"http://ci.internal", "http://ci.internal", "fe80::1", false},
		{"http://ci.internal", "http://ci.internal", "0.0.0.0", false},
		{"http://localhost", "http://localhost", "::1", true},
		{"http://localhost", "http://localhost", "10.0.0.1", true},
		{"http://localhost", "http://localhost", "169.254.169.254", false},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		p, ok := list(t, c.entry).find(u)
		if got := p.allows(netip.MustParseAddr(c.address)); !ok || got != c.want {
			t.Errorf("--allow %s, %s at %s: got %t, want %t", c.entry, c.url, c.address, got, c.want)
		}
	}
}

func TestWrongEntriesSayWhatIsWanted(t *testing.T) {
	for entry, want := range map[string]string{
		"":                           "has no scheme",
		"ci.example.com":             "has no scheme",
		"ftp://ci.example.com":       "neither the scheme http nor https",
		"http://":                    "is not a URL",
		"http://u:hush@ci/":          "has a user",
		"ftp://u:hush@ci/":           "neither the scheme",
		"u:hush@ci":                  "has no scheme",
		"https://ci/?a=b":            "a query",
		"https://ci/#a":              "a fragment",
		"https://ci/a/../b":          "a dot segment",
		"10.0.0.1/8":                 "the network is 10.0.0.0/8",
		"http://10.0.0.0/33":         "is not a network",
		"http://10.0.0.0/8:":         "has no port",
		"http://10.0.0.0/8:99999":    "has no port",
		"http://[fd00::1]/8":         "the network is fd00::/8",
		"https://ci.example.com:a/b": "is not a URL",
		"http://ci:99999/hooks":      "has no port",
		"http://ci:0/hooks":          "has no port",
		"http://*.example.com":       "is not the name of a host",
		"http://a,http://b":          "one destination",
		"http://10.0.0.0/8,10.0.0.1": "one destination",
		"http://10.0.0.0/8/":         "ends with a slash",
		"10.0.0.0/8/":                "ends with a slash",
		"::ffff:10.0.0.0/104":        "IPv4",
	} {
		_, err := ParseAllowList([]string{"http://ok", entry})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: got %v, want an error with %q", entry, err, want)
		}
	}
}
