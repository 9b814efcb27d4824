// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0
//
// Upload.java ADDRESS PATH TIMES: as upload.py, with Java's HttpURLConnection.
import java.io.IOException;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URI;

public class Upload {
    public static void main(String[] args) throws Exception {
        var url = URI.create("http://" + args[0] + args[1]).toURL();
        byte[] part = new byte[1 << 16];
        for (int n = 0; n < Integer.parseInt(args[2]); n++) {
            for (int mb : new int[] {1, 5, 50}) {
                for (String name : new String[] {"length", "chunked", "buffered"}) {
                    try {
                        var conn = (HttpURLConnection) url.openConnection();
                        conn.setRequestMethod("POST");
                        conn.setDoOutput(true);
                        switch (name) {
                            case "length" -> conn.setFixedLengthStreamingMode(mb << 20);
                            case "chunked" -> conn.setChunkedStreamingMode(part.length);
                            default -> { }
                        }
                        try (OutputStream out = conn.getOutputStream()) {
                            for (int i = 0; i < (mb << 20) / part.length; i++) {
                                out.write(part);
                            }
                        }
                        int status = conn.getResponseCode();
                        System.out.println(name + " " + mb + " " + status + " " + conn.getHeaderField("Retry-After"));
                    } catch (IOException e) {
                        System.out.println(name + " " + mb + " " + e);
                    }
                }
            }
        }
    }
}
