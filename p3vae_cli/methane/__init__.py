"""From a radiance scene to methane maps, plumes and emission rates."""
