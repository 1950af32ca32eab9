package branding

import (
	"encoding/hex"
	"fmt"
	"math"
)

// Color is a color in sRGB, with channels from 0 to 1.
type Color struct{ R, G, B float64 }

var (
	white       = Color{1, 1, 1}
	black       = Color{}
	darkSurface = mustParse("#171b21")
	// The backgrounds of links: the page, cards, and rows under the pointer, of static/style.css.
	lightBackgrounds = []Color{white, mustParse("#f6f7f9"), mustParse("#f1f3f6"), mustParse("#eef2fb")}
	darkBackgrounds  = []Color{darkSurface, mustParse("#0f1216"), mustParse("#1f252d"), mustParse("#1d2634")}
)

func mustParse(text string) Color {
	c, ok := ParseColor(text)
	if !ok {
		panic("branding: " + text + " is not a color")
	}
	return c
}

// ParseColor returns the color of a text of the form #rrggbb.
func ParseColor(text string) (c Color, ok bool) {
	const length, whole = 7, 255
	if len(text) != length || text[0] != '#' {
		return Color{}, false
	}
	b, err := hex.DecodeString(text[1:])
	if err != nil {
		return Color{}, false
	}
	return Color{float64(b[0]) / whole, float64(b[1]) / whole, float64(b[2]) / whole}, true
}

// String returns the color in the form #rrggbb.
func (c Color) String() string {
	const whole = 255
	channel := func(v float64) int { return int(math.Round(v * whole)) }
	return fmt.Sprintf("#%02x%02x%02x", channel(c.R), channel(c.G), channel(c.B))
}

// Contrast returns the contrast ratio of two colors, 1 to 21.
// Source: https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio
func Contrast(a, b Color) float64 {
	const flare = 0.05
	bright, dark := a.luminance()+flare, b.luminance()+flare
	return math.Max(bright, dark) / math.Min(bright, dark)
}

// luminance returns the relative luminance. Source: https://www.w3.org/TR/WCAG22/#dfn-relative-luminance
func (c Color) luminance() float64 {
	linear := func(v float64) float64 {
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c.R) + 0.7152*linear(c.G) + 0.0722*linear(c.B)
}

// mix returns c with a share of another color.
func (c Color) mix(other Color, share float64) Color {
	between := func(a, b float64) float64 { return a + (b-a)*share }
	return Color{between(c.R, other.R), between(c.G, other.G), between(c.B, other.B)}
}

// readable returns the color that is nearest to c, on the way to an end, and has a contrast of at
// least 4.5 : 1 to all backgrounds.
func (c Color) readable(end Color, backgrounds ...Color) Color {
	const steps = 100
	for i := range steps {
		candidate := mustParse(c.mix(end, float64(i)/steps).String()) // the color after rounding
		if isReadable(candidate, backgrounds) {
			return candidate
		}
	}
	return end
}

func isReadable(c Color, backgrounds []Color) bool {
	for _, b := range backgrounds {
		if Contrast(c, b) < minContrast {
			return false
		}
	}
	return true
}
