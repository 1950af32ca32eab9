package branding

import "fmt"

// Shares of the accent color in the background of chosen items.
const softLight, softDark = 0.9, 0.78

// accents are the colors of one theme.
type accents struct{ text, surface, soft Color }

// light returns the colors of the light theme for an accent color.
func light(accent Color) accents {
	soft := mustParse(accent.mix(white, softLight).String())
	return accents{accent.readable(black, append([]Color{soft}, lightBackgrounds...)...), accent.readable(black, white), soft}
}

// dark returns the colors of the dark theme for an accent color.
func dark(accent Color) accents {
	soft := mustParse(accent.mix(darkSurface, softDark).String())
	return accents{accent.readable(white, append([]Color{soft}, darkBackgrounds...)...), accent.readable(black, white), soft}
}

// CSS returns the style sheet that replaces the accent colors of internal/web/static/style.css; it
// is empty without an accent color. The config must be valid.
func (c Config) CSS() []byte {
	accent, isSet := ParseColor(c.AccentColor)
	accentDark, isDarkSet := ParseColor(c.AccentColorDark)
	switch {
	case !isSet && !isDarkSet:
		return nil
	case !isSet:
		accent = mustParse("#2f4fc9")
	case !isDarkSet:
		accentDark = accent
	}
	forLight, forDark := light(accent), dark(accentDark)
	return fmt.Appendf(nil, `:root {
  --accent: light-dark(%s, %s);
  --accent-surface: light-dark(%s, %s);
  --accent-soft: light-dark(%s, %s);
}
`, forLight.text, forDark.text, forLight.surface, forDark.surface, forLight.soft, forDark.soft)
}
