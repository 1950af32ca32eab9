package browsertest

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"testing"
)

func TestACompactScreenshotKeepsRareColors(t *testing.T) {
	const side = 64
	from := image.NewRGBA(image.Rect(0, 0, side, side))
	for x := range side {
		for y := range side {
			from.Set(x, y, color.RGBA{uint8(4 * x), uint8(4 * x), uint8(4*x + y/16), 255})
		}
	}
	rare := color.RGBA{179, 38, 30, 255}
	from.Set(side/2, side/2, rare)
	var raw bytes.Buffer
	if err := png.Encode(&raw, from); err != nil {
		t.Fatal(err)
	}
	small, err := compact(raw.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	to, err := png.Decode(bytes.NewReader(small))
	if err != nil {
		t.Fatal(err)
	}
	if got := color.RGBAModel.Convert(to.At(side/2, side/2)); got != rare {
		t.Errorf("the rare color is %v, want %v", got, rare)
	}
	if palette, ok := to.ColorModel().(color.Palette); !ok || len(palette) != maxColors {
		t.Errorf("got the color model %T of %d colors, want a palette of %d", to.ColorModel(), len(palette), maxColors)
	}
}
