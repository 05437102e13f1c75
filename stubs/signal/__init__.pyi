from plugrad.signal import windows as windows
