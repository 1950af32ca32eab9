package filter

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// number is a JSON number that compares exactly, regardless of its number of digits. The zero
// number is 0.
type number struct {
	negative bool
	whole    string // digits before the point, without leading zeros; empty for 0
	fraction string // digits after the point, without trailing zeros; empty for 0
	point    int64  // position of the decimal point, counted from the first digit
	float    float64
	isPlain  bool // float is exact, and the other fields are not set
}

// maxExponent caps exponents. It is far above any exponent in practice. Numbers with larger exponents
// are compared by their digits.
const maxExponent = 1 << 40

// plainDigits is the number of decimal digits of an integer that a float64 always represents
// exactly.
const plainDigits = 15

// numberOf parses a number that gjson has found. It allocates nothing.
func numberOf(r *gjson.Result) number {
	text := r.Raw
	n := number{float: r.Num, isPlain: len(text) <= plainDigits && !strings.ContainsAny(text, ".eE")}
	if n.isPlain {
		return n
	}
	return exactNumber(text)
}

func exactNumber(text string) (n number) {
	n.negative = strings.HasPrefix(text, "-")
	text = strings.TrimPrefix(text, "-")
	var exponent int64
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		exponent = exponentOf(text[i+1:])
		text = text[:i]
	}
	n.whole, n.fraction, _ = strings.Cut(text, ".")
	n.whole = strings.TrimLeft(n.whole, "0")
	n.point = int64(len(n.whole)) + exponent
	if n.whole == "" {
		trimmed := strings.TrimLeft(n.fraction, "0")
		n.point -= int64(len(n.fraction) - len(trimmed))
		n.fraction = trimmed
	}
	if n.fraction = strings.TrimRight(n.fraction, "0"); n.fraction == "" {
		n.whole = strings.TrimRight(n.whole, "0")
	}
	if n.whole == "" && n.fraction == "" {
		return number{}
	}
	return n
}

func exponentOf(text string) int64 {
	e, err := strconv.ParseInt(text, 10, 64)
	if err != nil && strings.HasPrefix(text, "-") {
		return -maxExponent
	}
	if err != nil {
		return maxExponent
	}
	return max(-maxExponent, min(maxExponent, e))
}

// Integer returns a JSON number as decimal digits if it is whole and at most 20 digits long,
// otherwise "".
func Integer(text string) string {
	n := exactNumber(text)
	const maxDigits = 20 // the length of the largest uint64
	zeros := n.point - int64(n.digits())
	if zeros < 0 || n.point > maxDigits {
		return ""
	}
	digits := n.whole + n.fraction + strings.Repeat("0", int(zeros))
	if n.negative {
		return "-" + digits
	}
	return digits
}

// exact returns the number with its digits set, also if the number is plain.
func (n number) exact() number {
	if !n.isPlain {
		return n
	}
	return exactNumber(strconv.FormatFloat(n.float, 'f', -1, 64))
}

// compare returns a negative value if n < m, a positive value if n > m, and 0 if they are equal.
func (n number) compare(m number) int {
	if n.isPlain && m.isPlain {
		switch {
		case n.float < m.float:
			return -1
		case n.float > m.float:
			return 1
		}
		return 0
	}
	n, m = n.exact(), m.exact()
	if a, b := n.sign(), m.sign(); a != b || a == 0 {
		return a - b
	}
	return n.sign() * n.compareSize(m)
}

func (n number) sign() int {
	switch {
	case n.whole == "" && n.fraction == "":
		return 0
	case n.negative:
		return -1
	}
	return 1
}

// compareSize compares absolute values. Neither number may be 0.
func (n number) compareSize(m number) int {
	if n.point != m.point {
		if n.point < m.point {
			return -1
		}
		return 1
	}
	for i := range max(n.digits(), m.digits()) {
		if a, b := n.digit(i), m.digit(i); a != b {
			return int(a) - int(b)
		}
	}
	return 0
}

func (n number) digits() int { return len(n.whole) + len(n.fraction) }

func (n number) digit(i int) byte {
	switch {
	case i < len(n.whole):
		return n.whole[i]
	case i < n.digits():
		return n.fraction[i-len(n.whole)]
	}
	return '0'
}
