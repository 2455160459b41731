package decision

import "github.com/mehdiazizian/liqo-resource-broker/internal/money"

// Price is what a candidate charges for one hour of one core, one GiB or one piece of another
// resource, in billionths of its currency's unit.
type Price = money.Price
