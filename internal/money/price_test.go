package money

import (
	"errors"
	"testing"

	"github.com/shopspring/decimal"
)

func TestParsePrice(t *testing.T) {
	cases := map[string]struct {
		in      string
		want    Price
		wantErr bool
	}{
		"cents":                         {in: "0.05", want: 50_000_000},
		"whole units":                   {in: "3", want: 3_000_000_000},
		"nine places":                   {in: "0.000000001", want: 1},
		"trailing zeros mean nothing":   {in: "0.05000000000000", want: 50_000_000},
		"free of charge":                {in: "0", want: 0},
		"no digit before the point":     {in: ".5", want: 500_000_000},
		"the highest price":             {in: "1000000000", want: Max},
		"above the highest price":       {in: "1000000000.000000001", wantErr: true},
		"a tenth place":                 {in: "0.0000000001", wantErr: true},
		"a negative price":              {in: "-1", wantErr: true},
		"an exponent":                   {in: "1e3", wantErr: true},
		"a huge exponent":               {in: "1e999999999", wantErr: true},
		"nothing":                       {in: "", wantErr: true},
		"a point alone":                 {in: ".", wantErr: true},
		"two points":                    {in: "1.2.3", wantErr: true},
		"a currency with it":            {in: "0.05 EUR", wantErr: true},
		"a comma":                       {in: "0,05", wantErr: true},
		"other digits than Latin ones":  {in: "٣", wantErr: true},
		"more digits than make sense":   {in: "0.00000000000000000000000000000000", wantErr: true},
		"a number without upper limits": {in: "99999999999999999999999999999999", wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParsePrice(tc.in)
			if got != tc.want || errors.Is(err, ErrPrice) != tc.wantErr || (err != nil) != tc.wantErr {
				t.Errorf("got %d, %v; want %d, error %v", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func FuzzParsePrice(f *testing.F) {
	for _, seed := range []string{"0.05", ".", "1.", ".5", "1000000000", "1000000000.000000001", "00.10", "1e9", "-1", "0.0000000000"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePrice(s)
		if err != nil {
			return
		}
		d, err := decimal.NewFromString(s)
		if err != nil || !d.Equal(p.Decimal()) || p < 0 || p > Max {
			t.Fatalf("%q is %d, want %s (%v)", s, p, d, err)
		}
		if again, err := ParsePrice(p.String()); err != nil || again != p {
			t.Fatalf("%q was written as %q, read as %d: %v", s, p, again, err)
		}
	})
}
