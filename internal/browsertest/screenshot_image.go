package browsertest

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"slices"
)

// maxColors is the number of colors of a screenshot. A page has few colors besides the shades at the
// edges of its letters.
const maxColors = 128

// compact encodes a PNG again with its most frequent colors and a byte for each pixel, which makes it a
// third as large.
func compact(raw []byte) ([]byte, error) {
	from, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	to := image.NewPaletted(from.Bounds(), paletteOf(from))
	draw.Draw(to, to.Bounds(), from, from.Bounds().Min, draw.Src)
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	err = encoder.Encode(&b, to)
	return b.Bytes(), err
}

// paletteOf returns the most frequent colors of an image.
func paletteOf(from image.Image) color.Palette {
	counts := map[color.RGBA]int{}
	bounds := from.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)]++ //nolint:forcetypeassert // of this model
		}
	}
	found := make([]color.RGBA, 0, len(counts))
	for c := range counts {
		found = append(found, c)
	}
	slices.SortFunc(found, func(a, b color.RGBA) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return number(a) - number(b)
	})
	palette := make(color.Palette, 0, maxColors)
	for _, c := range found[:min(len(found), maxColors)] {
		palette = append(palette, c)
	}
	return palette
}

// number orders colors of the same frequency.
func number(c color.RGBA) int { return int(c.R)<<16 | int(c.G)<<8 | int(c.B) }
