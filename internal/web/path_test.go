package web

import "testing"

func TestPathBelow(t *testing.T) {
	for text, want := range map[string]string{"/x": "/x", "/x/": "/x/", "/x/a%2Fb?c=d&e=..#f": "/x/a%2Fb?c=d&e=..", "/x/.a/b..": "/x/.a/b..",
		"": "", "/": "", "/xy": "", "/y": "", "x": "", "/x/../y": "", "/x/..": "", "/x/./y": "", "/x//y": "", "//x/y": "", "/x/%2e%2e/y": "", "/x/..%2fy": "", `/x/\y`: "",
		"/x/%5cy": "", "https://evil.example/x": "", "//evil.example/x": "", "//u@evil.example/x": "", "javascript:/x": "", "/x\n": "", "/x/%zz": ""} {
		got := ""
		if u, ok := PathBelow("/x", text); ok {
			got = u.RequestURI()
		}
		if got != want {
			t.Errorf("%q, got %q, want %q", text, got, want)
		}
	}
}
