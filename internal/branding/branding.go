// Package branding has the settings with which an operator gives the portal its own look: a name, a
// logo, an accent color, and the origins whose pages may show the portal in a frame. It checks them,
// and derives the colors of the light and the dark theme with a contrast of at least 4.5 : 1 (WCAG
// 2.2 AA). It knows nothing of pages.
package branding

import (
	"fmt"
	"net/url"
	"path"
	"strings"
	"unicode"

	"github.com/eventhook/eventhook"
)

// Config has the settings of the portal's look.
type Config struct {
	Name            string   `config:"name"` // shown at the top; "" for Webhooks
	Logo            string   `config:"logo"` // path of an SVG or PNG file; "" for none
	AccentColor     string   `config:"accent_color"`
	AccentColorDark string   `config:"accent_color_dark"` // in the dark theme; "" derives it from AccentColor
	FrameAncestors  []string `config:"frame_ancestors"`   // origins; none: no page may embed the portal
}

// The limits of settings. minContrast is that of WCAG 2.2 AA for text.
const (
	minContrast = 4.5
	maxName     = 60
)

// Validate returns every fault by its key. It does not read the logo; see LoadLogo.
func (c Config) Validate() eventhook.Faults {
	var f eventhook.Faults
	if len([]rune(c.Name)) > maxName || strings.ContainsFunc(c.Name, unicode.IsControl) {
		f.Add("name", "must have at most %d characters, without control characters", maxName)
	}
	if c.Logo != "" && logoType(c.Logo) == "" {
		f.Add("logo", "%q is not the path of a file that ends with .svg or .png", c.Logo)
	}
	checkAccent(&f, "accent_color", c.AccentColor, white, "white, the background of the light theme")
	checkAccent(&f, "accent_color_dark", c.AccentColorDark, darkSurface, "#171b21, the background of the dark theme")
	for i, origin := range c.FrameAncestors {
		if !isOrigin(origin) {
			f.Add(fmt.Sprintf("frame_ancestors[%d]", i), "%q is not an origin such as https://app.example.com, without a path", origin)
		}
	}
	return f
}

func checkAccent(f *eventhook.Faults, key, text string, background Color, name string) {
	if text == "" {
		return
	}
	color, ok := ParseColor(text)
	if !ok {
		f.Add(key, "%q is not a color such as #2f4fc9", text)
		return
	}
	if contrast := Contrast(color, background); contrast < minContrast {
		f.Add(key, "%s has a contrast of %.2f : 1 to %s; want at least 4.5 : 1, so choose a %s color", text, contrast, name,
			map[bool]string{true: "darker", false: "lighter"}[background == white])
	}
}

// isOrigin reports whether a text is a scheme and a host with an optional port. The host can begin
// with *., as in a Content-Security-Policy. No character can end the directive of the policy.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.Opaque != "" {
		return false
	}
	host := strings.TrimPrefix(u.Hostname(), "*.")
	isName := host != "" && !strings.ContainsFunc(host, func(c rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:", c)
	})
	return isName && text == u.Scheme+"://"+u.Host && eventhook.IsPort(u.Port())
}

// Title returns the name of the portal.
func (c Config) Title() string {
	if c.Name == "" {
		return "Webhooks"
	}
	return c.Name
}

// logoType returns the extension of a logo that the portal can show; "" for other files.
func logoType(name string) string {
	switch extension := strings.ToLower(path.Ext(name)); extension {
	case ".svg", ".png":
		return extension
	}
	return ""
}
