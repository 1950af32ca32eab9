package targets

import (
	"reflect"
	"strings"
	"unicode"

	"github.com/eventhook/eventhook"
)

// hasLines reports whether the text of a member has several lines: PEM, or the content of a file.
func (m member) hasLines() bool {
	return m.name == "ca" || m.name == "certificate" || m.name == "private_key" || m.name == "credentials"
}

// checkTexts reports the texts of settings that have control characters, or nothing but white space. It quotes no text.
// The texts inside of auth, headers and lists have checks of their own.
func (k Kind[S]) checkTexts(s S) (f eventhook.Faults) {
	for _, m := range k.members() {
		field := m.in(s)
		if field.Kind() != reflect.String {
			continue
		}
		switch text := field.String(); {
		case text != "" && strings.TrimSpace(text) == "":
			f.Add(m.name, "must not be white space only")
		case m.hasLines() && strings.ContainsFunc(text, isNoTextCharacter):
			f.Add(m.name, "must not have control characters other than tabs and line breaks")
		case !m.hasLines() && strings.ContainsFunc(text, isNoLineCharacter):
			f.Add(m.name, "must not have control characters, such as line breaks")
		}
	}
	return f
}

func isNoLineCharacter(c rune) bool { return unicode.In(c, unicode.Cc, unicode.Zl, unicode.Zp) }

func isNoTextCharacter(c rune) bool {
	return isNoLineCharacter(c) && c != '\t' && c != '\n' && c != '\r'
}
