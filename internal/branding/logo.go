package branding

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// Logo is the image at the top of the portal.
type Logo struct {
	Name    string // of the file that the portal serves: logo.svg or logo.png; "" without a logo
	Content []byte
}

const maxLogo = 256 << 10

// LoadLogo reads the logo. The error names the setting and says what is wrong with the file. Without
// a logo, LoadLogo returns an empty Logo.
func (c Config) LoadLogo() (Logo, error) {
	if c.Logo == "" {
		return Logo{}, nil
	}
	file, err := os.Open(c.Logo)
	if err != nil {
		return Logo{}, fmt.Errorf("portal.logo: %w", err)
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxLogo+1))
	isPNG, isSVG := bytes.HasPrefix(content, []byte("\x89PNG\r\n\x1a\n")), bytes.Contains(content, []byte("<svg"))
	switch extension := logoType(c.Logo); {
	case err != nil:
		return Logo{}, fmt.Errorf("portal.logo: %w", err)
	case len(content) > maxLogo:
		return Logo{}, fmt.Errorf("portal.logo: %s is larger than 256 KiB", c.Logo)
	case extension == "", extension == ".png" && !isPNG, extension == ".svg" && !isSVG:
		return Logo{}, fmt.Errorf("portal.logo: %s is not an SVG or PNG image", c.Logo)
	default:
		return Logo{Name: "logo" + extension, Content: content}, nil
	}
}
