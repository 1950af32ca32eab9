package browsertest

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"math"
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

// paletteOf returns the most frequent colors of an image, then the colors that differ most from the
// palette: a mark of a few pixels keeps its color.
func paletteOf(from image.Image) color.Palette {
	counts := countColors(from)
	found := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(number(a), number(b)))
	})
	const frequent = maxColors / 2
	palette := make(color.Palette, 0, maxColors)
	distances := make([]int, len(found)) // to the nearest color of the palette
	for i := range distances {
		distances[i] = math.MaxInt
	}
	for next := 0; len(palette) < maxColors && distances[next] > 0; {
		palette = append(palette, found[next])
		for i, c := range found {
			distances[i] = min(distances[i], distance(c, found[next]))
		}
		if next++; len(palette) >= frequent || next == len(found) {
			next = slices.Index(distances, slices.Max(distances))
		}
	}
	return palette
}

func countColors(from image.Image) map[color.RGBA]int {
	counts := map[color.RGBA]int{}
	bounds := from.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)]++ //nolint:forcetypeassert // of this model
		}
	}
	return counts
}

// number orders colors of the same frequency.
func number(c color.RGBA) int { return int(c.R)<<16 | int(c.G)<<8 | int(c.B) }

func distance(a, b color.RGBA) int {
	r, g, blue := int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B)
	return r*r + g*g + blue*blue
}
