// Package object names and finds the Liqo objects of a peering.
package object
