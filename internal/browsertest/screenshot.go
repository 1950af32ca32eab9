package browsertest

import (
	"context"
	"os"
	"path/filepath"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// Variant is a size of the window with a colour scheme.
type Variant struct {
	Name   string // part of the names of screenshots
	Width  int64
	Height int64
	Scheme string // light or dark
	Touch  bool   // a phone
}

// The variants that every page has.
var (
	Light = Variant{Name: "light", Width: 1280, Height: 800, Scheme: "light"}
	Dark  = Variant{Name: "dark", Width: 1280, Height: 800, Scheme: "dark"}
	Phone = Variant{Name: "phone", Width: 360, Height: 740, Scheme: "light", Touch: true}
)

// View shows the page in a variant from now on.
func (p *Page) View(v Variant) {
	p.t.Helper()
	p.Do("view as "+v.Name, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: v.Width, Height: v.Height, DeviceScaleFactor: 1, Mobile: v.Touch}); err != nil {
			return err
		}
		if _, err := cdp.Call(ctx, t, emulation.SetTouchEmulationEnabled,
			emulation.SetTouchEmulationEnabledParams{Enabled: v.Touch}); err != nil {
			return err
		}
		features := []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: v.Scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
		return err
	}))
}

// maxShot is the maximum height of a screenshot in pixels.
const maxShot = 1600

// IsShooting reports whether Screenshot writes files, see `make screenshots`.
func IsShooting() bool { return os.Getenv("UPDATE_SCREENSHOTS") != "" }

// Screenshot writes docs/images/NAME-VARIANT.png for each variant, all three by default, if the
// environment variable UPDATE_SCREENSHOTS is set. A screenshot shows the whole page, up to a height of
// maxShot. The page is then in the last variant.
func (p *Page) Screenshot(name string, variants ...Variant) {
	p.t.Helper()
	if !IsShooting() {
		return
	}
	if len(variants) == 0 {
		variants = []Variant{Light, Dark, Phone}
	}
	for _, v := range variants {
		p.View(v)
		whole := v
		whole.Height = min(max(v.Height, Eval[int64](p, `document.documentElement.scrollHeight`)), maxShot)
		p.View(whole)
		p.write(filepath.Join(Root(p.t), "docs", "images", name+"-"+v.Name+".png"))
		p.View(v)
	}
}

// write writes what the window shows as a PNG.
func (p *Page) write(file string) {
	p.t.Helper()
	image, err := compact(run(p, "take a screenshot", chromedp.CaptureScreenshot()))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // a folder of the repository
		p.t.Fatal(err)
	}
	if err := os.WriteFile(file, image, 0o644); err != nil { //nolint:gosec // a file of the repository
		p.t.Fatal(err)
	}
}

// Overflow returns the width by which the page is wider than the window, in pixels.
func (p *Page) Overflow() int {
	p.t.Helper()
	return Eval[int](p, `document.documentElement.scrollWidth - document.documentElement.clientWidth`)
}
