package branding

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestFaultsOfSettingsNameTheirKey(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string // "" for a valid config
	}{
		{Config{}, ""},
		{Config{Name: "Acme", Logo: "/etc/logo.svg", AccentColor: "#2f4fc9", AccentColorDark: "#8fa8ff", FrameAncestors: []string{"https://app.example.com", "https://*.example.com:8443"}}, ""},
		{Config{Name: strings.Repeat("a", 61)}, "name"},
		{Config{Logo: "logo.gif"}, "logo"},
		{Config{AccentColor: "red"}, "accent_color"},
		{Config{AccentColor: "#2f4fc"}, "accent_color"},
		{Config{AccentColor: "#ffcc00"}, "accent_color #ffcc00 has a contrast of 1.51 : 1 to white"},
		{Config{AccentColor: "#777777"}, "contrast of 4.48 : 1"},
		{Config{AccentColor: "#767676"}, ""},
		{Config{AccentColorDark: "#2f4fc9"}, "accent_color_dark"},
		{Config{FrameAncestors: []string{"https://a.example", "https://b.example/path"}}, "frame_ancestors[1]"},
		{Config{FrameAncestors: []string{"'self'"}}, "frame_ancestors[0]"},
		{Config{FrameAncestors: []string{"*"}}, "frame_ancestors[0]"},
		{Config{FrameAncestors: []string{"https://a.example; script-src *"}}, "frame_ancestors[0]"},
		{Config{FrameAncestors: []string{"https://user@a.example"}}, "frame_ancestors[0]"},
		{Config{FrameAncestors: []string{"javascript:alert(1)"}}, "frame_ancestors[0]"},
	} {
		got := fmt.Sprint(c.config.Validate())
		if c.want == "" && len(c.config.Validate()) > 0 || !strings.Contains(got, c.want) {
			t.Errorf("faults of %+v, got %s, want %q", c.config, got, c.want)
		}
	}
}

func TestDerivedColorsAreReadable(t *testing.T) {
	for _, accent := range []string{"#000000", "#767676", "#b3261e", "#006400", "#2f4fc9", "#7a00cc", "#8a5200"} {
		color := mustParse(accent)
		for name, c := range map[string]struct {
			accents
			backgrounds []Color
		}{"light": {light(color), lightBackgrounds}, "dark": {dark(color), darkBackgrounds}} {
			if !isReadable(c.text, append(c.backgrounds, c.soft)) {
				t.Errorf("%s in the %s theme: %s is not readable", accent, name, c.text)
			}
			if Contrast(c.surface, white) < minContrast {
				t.Errorf("%s in the %s theme: white is not readable on %s", accent, name, c.surface)
			}
		}
	}
}

func TestThemeHasTheChosenColors(t *testing.T) {
	if css := (Config{}).CSS(); css != nil {
		t.Errorf("theme without colors, got %s, want none", css)
	}
	css := string(Config{AccentColor: "#006400", AccentColorDark: "#7fd17f"}.CSS())
	for _, want := range []string{"--accent: light-dark(#006400, #7fd17f)", "--accent-surface: light-dark(#006400, #"} {
		if !strings.Contains(css, want) {
			t.Errorf("theme, got %s, want %q", css, want)
		}
	}
	if !regexp.MustCompile(`^:root \{\n(  --[a-z-]+: light-dark\(#[0-9a-f]{6}, #[0-9a-f]{6}\);\n){3}\}\n$`).MatchString(css) {
		t.Errorf("theme, got %s, want three custom properties", css)
	}
}

func TestLogoIsAnImageOfAtMost256KiB(t *testing.T) {
	write := func(name, content string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const png = "\x89PNG\r\n\x1a\n"
	for _, c := range []struct{ path, want, fault string }{
		{"", "", ""},
		{write("a.svg", `<svg xmlns="http://www.w3.org/2000/svg"/>`), "logo.svg", ""},
		{write("a.PNG", png), "logo.png", ""},
		{write("b.png", "GIF89a"), "", "is not an SVG or PNG image"},
		{write("b.svg", "<html>"), "", "is not an SVG or PNG image"},
		{write("c.png", png+strings.Repeat("a", maxLogo)), "", "larger than 256 KiB"},
		{"/does/not/exist.svg", "", "no such file"},
	} {
		logo, err := Config{Logo: c.path}.LoadLogo()
		if logo.Name != c.want || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("logo %q, got %q and error %v, want %q and error %q", c.path, logo.Name, err, c.want, c.fault)
		}
	}
}
